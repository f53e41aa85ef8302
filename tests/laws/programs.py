"""
Webhook, scorer, `kubectl numa` and the map on one cluster, each asked as its callers ask it.

What the cluster, its policy and the callers say are documents, and every program reads them itself.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kubectl_numa import checking, explanation, moving
from kubectl_numa.checking import Checked
from kubectl_numa.explanation import Explanation
from kubectl_numa.manifests import Manifest
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView, WebhookOptions
from kubectl_numa.simulating import Gpus, nodes_of_cluster
from numalign.kube.cluster import Cluster
from numalign.kube.decode import shapes as codec
from numalign.kube.decode.pods import pod as read_pod
from numalign.kube.decode.templates import TemplateLocation
from numalign.kube.files import policy, snapshot
from numalign.kube.files.policy import ClusterPolicy
from numalign.map.state import MapState
from numalign.map.views import WhatIfResult
from numalign.map.what_if import WhatIf
from numalign.model.errors import BadInput
from numalign.model.intent import Match
from numalign.model.node import Node
from numalign.scheduling.defragmentation import Advice
from numalign.scheduling.node_answers import Filtered
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from numalign.shapes import ShapeHistory
from tests.laws.clusters import Case
from tests.worlds.clusters import become
from tests.worlds.notation import GPU
from tests.worlds.objects import all_visible
from tests.worlds.scorer import Scorer, wall
from tests.worlds.webhook import Caller, Webhook

NOW = time.time()
"""Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What the webhook says: why it refuses, if it does, and its warnings, all as a client shows them."""

    refusal: str | None
    warnings: tuple[str, ...]


Free = Mapping[str, Sequence[int]]
"""How many GPUs are free in each zone of a node, by its name."""


@dataclass(frozen=True, slots=True)
class Scored:
    """How the scorer reads a pod, None if it cannot, and what nodes say by name."""

    subject: PendingPod | None
    filtered: Filtered


@dataclass(frozen=True, slots=True)
class Answers:
    """What all programs say of one case; None where they cannot read the pod."""

    webhook: WebhookAnswer
    checked: Checked
    explained: Explanation | None
    scored: Scored
    what_if: WhatIfResult | None
    defrag: Advice | None
    free: Mapping[str, Free]


class Programs:
    """All programs, in this process. Asked of one case after another, none remembers the one before."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._webhooks: dict[tuple[str, str], tuple[Webhook, TestClient[web.Request, web.Application]]] = {}

    def ask(self, case: Case) -> Answers:
        """What they say."""
        cluster_policy = cluster_policy_of(case)
        cluster = cluster_view(case)
        checked, placed = check_manifest(case, cluster), placed_pods(case, cluster)
        explained = explanation.explain(checked.pod, cluster, placed.state) if checked.pod else None
        advice = moving.advise(checked.pod, cluster, placed, priority=0) if checked.pod else None
        webhook = self._runner.run(self._ask_webhook(case, _seen(case, cluster_policy), cluster_policy))
        scorer = self._runner.run(_scorer(case, _seen(case, cluster_policy), cluster_policy))
        shown = MapState(scorer.state)
        what_if = self._runner.run(_ask_the_map(case, shown))
        free = {
            "scorer": _free_gpus(_nodes(scorer.state)),
            "simulate": _free_in_replay(placed.nodes),
            "nodes": _free_gpus(placed.nodes),
            "map": self._runner.run(_free_on_map(placed.nodes, shown)),
        }
        return Answers(webhook, checked, explained, _scored(case, scorer), what_if, advice, free)

    def close(self) -> None:
        """End the webhooks."""
        for _, client in self._webhooks.values():
            self._runner.run(client.close())

    async def _ask_webhook(self, case: Case, seen: Cluster, cluster_policy: ClusterPolicy) -> WebhookAnswer:
        """What one on a socket says to a pod that is created; it is told of one cluster after another."""
        key = (case.unknown, case.match)
        if key not in self._webhooks:
            webhook = Webhook(Path("none"))
            app = webhook.app(unknown_nodes=case.unknown, policy_match=case.match)
            self._webhooks[key] = webhook, TestClient(TestServer(app))
            await self._webhooks[key][1].start_server()
        webhook, client = self._webhooks[key]
        webhook.policy.now = cluster_policy
        become(webhook.cluster, seen)
        user = {"username": case.user}
        response = await Caller(client, client).ask(
            "/validate", case.pod, namespace=case.namespace, userInfo=user
        )
        refusal = None if response["allowed"] else response["status"]["message"]
        return WebhookAnswer(refusal, tuple(response.get("warnings", ())))


def cluster_policy_of(case: Case) -> ClusterPolicy:
    """The policy of its cluster."""
    return policy.parse(yaml.dump(_policy(case), Dumper=yaml.CSafeDumper).encode())


def cluster_view(case: Case) -> ClusterView:
    """Its cluster, as `kubectl numa` sees it."""
    cluster_policy = cluster_policy_of(case)
    match, may_fit = Match(case.match), case.unknown == "may-fit"
    options = WebhookOptions(match=match, unknown_may_fit=may_fit, created_by=case.user)
    return ClusterView(_seen(case, cluster_policy), cluster_policy, options, now=time.time())


def check_manifest(case: Case, cluster: ClusterView) -> Checked:
    """What `check -f` says of its pod."""
    place = TemplateLocation("", case.pod)
    try:
        manifest = Manifest("case", kind="Pod", place=place, pod=read_pod(case.pod))
    except BadInput as error:
        manifest = Manifest("case", kind="Pod", place=place).wrong_pod(error)
    return checking.check(replace(manifest, namespace=case.namespace), cluster)


def _policy(case: Case) -> Mapping[str, object]:
    declared = codec.exported(snapshot.of(case.declared).known_shapes)
    return {**case.policy, **({"shapes": declared} if declared else {})}


def _seen(case: Case, cluster_policy: ClusterPolicy) -> Cluster:
    """The cluster as a program reads it that has just started."""
    before = ShapeHistory(wall=lambda: NOW - 7200)
    snapshot.of(case.before, shape_history=before)
    remembered = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": codec.NAME, "namespace": "numalign"},
        "data": codec.encode(before.to_remember()),
    }
    history = ShapeHistory(wall=lambda: NOW)
    history.declare(cluster_policy.declared)
    return snapshot.of([*case.items, remembered], shape_history=history)


def placed_pods(case: Case, cluster: ClusterView) -> PlacedPods:
    """The pods of its cluster, as `kubectl numa` sees them."""
    return moving.placed_pods(cluster, case.pods, match=Match(case.match), complete=False)


async def _scorer(case: Case, seen: Cluster, cluster_policy: ClusterPolicy) -> Scorer:
    scorer = Scorer(match=Match(case.match))
    scorer.time.seconds += time.time() - wall(scorer.time)
    # Without pods in it, exporters know more of what is taken.
    scorer.state.complete = lambda _settled: bool(case.pods)
    scorer.obey(cluster_policy)
    await scorer.know_cluster(seen)
    scorer.see(*case.pods)
    return scorer


def _scored(case: Case, scorer: Scorer) -> Scored:
    try:
        subject = scorer.subject(case.pod)
    except BadInput:
        return Scored(None, Filtered([], {}, {}))
    return Scored(subject, scorer.nodes.filtered([*scorer.state.node_names()], subject)[0])


async def _ask_the_map(case: Case, shown: MapState) -> WhatIfResult | None:
    what_if = WhatIf(shown, unknown_may_fit=case.unknown == "may-fit")
    try:
        return await what_if.ask(orjson.dumps(case.pod), visible=all_visible, user=case.user)
    except BadInput:
        return None


# What is free.


def _free_gpus(nodes: Iterable[Node]) -> Free:
    return {node.name: [zone.free.get(GPU, 0) for zone in node.zones] for node in nodes}


def _nodes(state: SchedulerState) -> Iterator[Node]:
    for name in state.reservations.node_names():
        free = state.reservations.free_capacity(name, now=state.clock())
        assert free is not None
        yield free.node


def _free_in_replay(nodes: Sequence[Node]) -> Free:
    """What is left for pods of a trace: GPUs are whole there, and what is not free is held."""
    replayed = nodes_of_cluster(nodes, Gpus(GPU, "")) if nodes else []
    return {
        webhook.zoned.name: [
            sum(at == zone and slot not in webhook.held_gpus for slot, at in enumerate(webhook.gpu_zones))
            for zone in range(len(webhook.zoned.zones))
        ]
        for webhook in replayed
    }


async def _free_on_map(nodes: Iterable[Node], shown: MapState) -> Free:
    pages = {node.name: await shown.node(node.name, all_visible) for node in nodes}
    return {name: [zone.free.get(GPU, 0) for zone in page.tile.zones] for name, page in pages.items() if page}
