"""What numalign predicts from nothing but what the API server holds: Nodes, pods, and what agents publish.

The scorer's own reader, ledger and rules are asked, as they are when a scheduler asks.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient
from prometheus_client import CollectorRegistry

from numalign.kube.cluster import Cluster, Settled
from numalign.kube.cluster_state import ClusterState
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.kubelet import admit as kubelet
from numalign.ledger.model import Basis, Prediction
from numalign.ledger.reservations import Reservations
from numalign.model.demand import Demand
from numalign.model.intent import Match
from numalign.model.machine import render_list
from numalign.model.node import Known
from numalign.model.placement import Grant
from numalign.runtime.logs import Log
from numalign.scheduling.scheduler_state import SchedulerState
from tests.worlds.clusters import published
from tools.clusters.api_requests import Json, ask
from tools.clusters.sim.desk import TOPOLOGIES

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a kubelet is expected to do with a pod: `reason` is empty if it admits it.

    By container: `cpus` in list format, `memory` and `devices` by resource and zones, as `kept.Kept` has
    them. `chosen` are the devices of which others would do as well.
    """

    reason: str = ""
    cpus: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[tuple[int, ...], Mapping[str, int]]] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    known: Known = Known.COUNTS
    basis: Basis = Basis.REPORTED


async def predict(api: ApiClient, pod: Json) -> Predicted:
    """What the kubelet of `spec.nodeName` is expected to do with a pod that is not there yet."""
    name = pod["spec"]["nodeName"]
    state = await _scheduler_state(api, name)
    pending = state.pending_pod(_waiting(pod))
    prediction = state.predict(name, pending, without=())
    assert prediction, f"no topology of {name}"
    return _predicted(prediction, pending.demand)


async def _scheduler_state(api: ApiClient, name: str) -> SchedulerState:
    """What a scorer knows that starts now."""
    state, pods = listening()
    seen = ClusterState(complete=True, cluster=state.cluster)
    for store, path in ((seen.nodes, NODES), (seen.topologies, TOPOLOGIES)):
        answer = await ask(api, "GET", f"{path}/{name}")
        store.put(name, answer.body)
    published(seen).apply(Settled())
    assert not state.cluster.problems, state.cluster.problems
    there = await ask(api, "GET", PODS, fieldSelector=f"spec.nodeName={name}")
    for pod in there.body["items"]:
        pods.put(pod)
    return state


def listening() -> tuple[SchedulerState, PodInformer]:
    """What a scorer knows that has heard of nothing yet, and who tells it of pods."""
    log, registry = Log(logging.getLogger("numalign.e2e")), CollectorRegistry()
    state = SchedulerState(
        Reservations(),
        cluster=Cluster(),
        policy=PolicyKeeper(None, log=log, registry=registry),
        match=Match.SATISFIES,
        clock=time.monotonic,
        wall=time.time,
    )
    return state, PodInformer(state, state.reader, log=log, registry=registry)


def _waiting(pod: Json) -> Json:
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return pod | {"metadata": pod["metadata"] | {"uid": "asked-about"}, "spec": spec}


def _predicted(prediction: Prediction, demand: Demand) -> Predicted:
    verdict, placement = prediction.verdict, prediction.verdict.placement
    facts: dict[str, Any] = {"known": verdict.known, "basis": prediction.basis}
    if verdict.refusal:
        # People are told what the empty node would say, where it would refuse as well; this is of now.
        refused = kubelet.admit(prediction.node, demand).refusal
        return Predicted(refused.reason if refused else verdict.refusal.reason, **facts)
    grants = [grant for grant in (*placement.grants, placement.whole) if grant]
    return Predicted(
        cpus={grant.container: render_list(grant.cpus) for grant in grants if grant.cpus},
        amounts={grant.container: _amounts(grant) for grant in grants},
        chosen=frozenset(name for grant in grants for name in grant.chosen),
        **facts,
    )


def _amounts(grant: Grant) -> Mapping[tuple[int, ...], Mapping[str, int]]:
    return {tuple(zones): dict(bag) for zones, bag in grant.amounts.items()}
