"""The pod after one that was refused goes elsewhere first, and nothing else is written for it."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.kinds import PODS
from numalign.model.intent import NODE_LABEL
from numalign.scheduling.recent_refusals import AVOID_SECONDS, RecentRefusals
from tests.unit.webhook.conftest import TEAM, Caller, Raw, Webhook, cluster, raw, read
from tests.worlds.clock import Clock
from tests.worlds.json_patch import applied
from tests.worlds.notation import node, table
from webhook.avoidance import AVOIDED, Avoidance, with_avoidance
from webhook.review import Allowed, Patched

NOW = 1767323045

SIX_BEHIND = "2026-01-02T02:58:05Z"
BORN, LONG_AGO = "2026-01-02T03:04:05Z", "2026-01-02T02:04:05Z"
SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u1", "controller": True}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SINGLE = node("cpu=8", "cpu=8", policy="single-numa-node")
TINY = node("cpu=1", "cpu=1", policy="single-numa-node")


def made(
    container: str = "cpu=4 mem=1Gi", *, policy: str | None = "single-numa-node", **metadata: object
) -> Raw:
    """A pod as a ReplicaSet makes it."""
    pod = raw(container, policy=policy)
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [SET], **metadata}}


def refused(on: str = "a", *, created: str = BORN, **status: object) -> Raw:
    """Such a pod, whose kubelet said no."""
    pod = made(name="web-1-x", namespace=TEAM, uid="p1", creationTimestamp=created)
    failure = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": BORN, **status}
    return {**pod, "spec": {**pod["spec"], "nodeName": on}, "status": failure}


class Seen:
    """What the webhook knows of refusals."""

    def __init__(self) -> None:
        self.clock = Clock(NOW)
        self.avoidance = Avoidance(RecentRefusals(clock=self.clock, wall=self.clock), PodReader())

    def see(self, *pods: Raw, counted: bool = False) -> None:
        """As a watch shows them."""
        for pod in pods:
            self.avoidance.update_pod(PODS.described(pod), counted=counted)

    def nodes(self, pod: Raw) -> tuple[str, ...]:
        """What a pod under review avoids."""
        return self.avoidance.nodes(read(pod, cluster([SINGLE])))


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_the_next_pod_avoids_the_node_that_refused_one_like_it(seen: Seen) -> None:
    seen.see(refused("a"))

    assert seen.nodes(made()) == ("a",)
    assert seen.nodes(made("cpu=2 mem=1Gi")) == ()


def test_it_may_be_made_by_another(seen: Seen) -> None:
    """As by the next Job of a JobSet, or of a CronJob."""
    seen.see(refused("a"))

    assert seen.nodes(made(ownerReferences=[{**SET, "uid": "u2"}])) == ("a",)


CLOCKS: list[tuple[str, Raw, bool]] = [
    # of a pod that a kubelet six minutes behind refused     counted before
    ("it is seen to fail, after it has waited",    refused(created=LONG_AGO, startTime=SIX_BEHIND),  True),
    ("it has failed before anybody looked",        refused(startTime=SIX_BEHIND),                    False),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "counted"), table(CLOCKS))
def test_the_clock_of_a_node_that_is_behind_makes_no_refusal_too_old(
    seen: Seen, pod: Raw, *, counted: bool
) -> None:
    seen.see(pod, counted=counted)

    assert seen.nodes(made()) == ("a",)


NOTHING: list[tuple[str, Raw]] = [
    ("it runs",                     refused(phase="Running")),
    ("it fails by itself",          refused(reason="Error")),
    ("it was refused long ago",     refused(created=LONG_AGO, startTime=LONG_AGO)),
    ("it says nothing",             {"metadata": {"name": "x"}}),
    ("all of it is of another shape", {"metadata": [], "spec": 1, "status": "x"}),
    ("its status is of another shape", refused(phase=["Failed"], reason={})),
    ("its times are none",          {**refused(startTime=5), "metadata": {"namespace": TEAM}}),
    ("its containers are none",     {**refused(), "spec": {"nodeName": "a", "containers": 1}}),
]  # fmt: skip


@pytest.mark.parametrize("pod", table(NOTHING))
def test_nothing_is_avoided_for_a_pod_when(seen: Seen, pod: Raw) -> None:
    seen.see(pod)

    assert seen.nodes(made()) == ()


AFFINITY = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchFields": [
    {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}}]}}  # fmt: skip


def test_it_is_a_preference_beside_all_else_that_is_written() -> None:
    pod = read(made(), cluster([SINGLE]))

    alone = with_avoidance(Allowed(audit={"x": "y"}), pod, ("a",), {})
    assert isinstance(alone, Patched)
    assert alone.audit == {"x": "y", AVOIDED: "a"}
    assert applied(dict(pod.pod), alone.operations)["spec"]["affinity"] == AFFINITY
    patched = read(applied(dict(pod.pod), alone.operations), cluster([SINGLE]))
    assert with_avoidance(alone, patched, ("a",), {}) == alone


def test_a_node_that_has_its_name_as_a_label_is_avoided_by_it() -> None:
    labels = {"a": {NODE_LABEL: "a"}, "b": {NODE_LABEL: "of-another"}}
    answer = with_avoidance(Allowed(), read(made(), cluster([SINGLE])), ("a", "b"), labels)

    assert isinstance(answer, Patched)
    [wish] = applied(made(), answer.operations)["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    assert wish["preference"] == {
        "matchExpressions": [{"key": NODE_LABEL, "operator": "NotIn", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}],
    }


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(made(policy="none"), id="requests no alignment"),
        pytest.param({**made(), "spec": {**made()["spec"], "nodeName": "a"}}, id="was placed by somebody"),
    ],
)
def test_nothing_is_written_into_a_pod_that(pod: Raw) -> None:
    assert with_avoidance(Allowed(), read(pod, cluster([SINGLE])), ("a",), {}) == Allowed()


# A ReplicaSet whose pods one node refuses, whatever the scheduler thinks of it.


def scored(pod: Raw, name: str) -> int:
    """The sum of the preferences that a node meets."""
    wishes = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, [])
    return sum(
        wish["weight"]
        for wish in wishes
        if all(name not in field["values"] for field in wish["preference"]["matchFields"])
    )


async def created(caller: Caller) -> Raw:
    """The pod as it is stored when its owner makes it."""
    response = await caller.ask("/mutate", made())
    patch: list[Mapping[str, Any]] = orjson.loads(base64.b64decode(response.get("patch", b"")) or b"[]")
    return applied(made(), patch)


async def tries(webhook: Webhook, *, sees: bool, **settings: object) -> list[str]:
    """The nodes that pods of a ReplicaSet are sent to until one is taken in, or five were refused.

    By itself the scheduler prefers `a`, whose kubelet refuses all.
    """
    webhook.put({"a": SINGLE, "b": SINGLE, "tiny": TINY})
    await webhook.load()
    webhook.clock.seconds = NOW
    avoidance, sent = webhook.avoidance, list[str]()
    async with webhook.open(**settings) as caller:
        while len(sent) < 5 and sent[-1:] != ["b"]:
            pod = await created(caller)
            sent.append(max(("a", "b"), key=lambda name: (scored(pod, name), name == "a")))
            if sees and sent[-1] == "a":
                avoidance(webhook.settings()).update_pod(PODS.described(refused("a")), counted=True)
    return sent


@pytest.fixture
def webhook(tmp_path: Path) -> Webhook:
    return Webhook(tmp_path / "cluster.json")


async def test_a_replica_set_whose_pods_a_node_refuses_gets_to_another_node(webhook: Webhook) -> None:
    assert await tries(webhook, sees=True) == ["a", "b"]


async def test_without_it_the_same_node_is_tried_for_ever(webhook: Webhook) -> None:
    assert await tries(webhook, sees=False) == ["a"] * 5


async def test_where_nothing_is_written_about_nodes_none_is_avoided(webhook: Webhook) -> None:
    assert await tries(webhook, sees=True, injection="off") == ["a"] * 5


async def test_what_is_written_stands_in_the_audit_log_and_ends_after_a_while(webhook: Webhook) -> None:
    webhook.put({"a": SINGLE})
    await webhook.load()
    webhook.clock.seconds = NOW
    webhook.avoidance(webhook.settings()).update_pod(PODS.described(refused("a")), counted=True)
    async with webhook.open() as caller:
        assert (await caller.ask("/mutate", made()))["auditAnnotations"] == {AVOIDED: "a"}
        assert webhook.count("numalign_cache_entries", cache="avoided") == 1
        webhook.clock.seconds += AVOID_SECONDS
        assert "patch" not in await caller.ask("/mutate", made())
