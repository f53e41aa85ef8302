"""What the controller runs for gated pods."""

from collections.abc import Sequence

from controller.gates.choosing import Chooser
from controller.gates.exclusion import Exclusion
from controller.gates.keeper import GateKeeper
from controller.gates.metrics import GateMetrics
from controller.gates.pods import GatedPods, PinWriter
from controller.gates.queue import GateQueue
from controller.gates.turns import NamespaceTurns
from controller.gates.unplaced import PinnedPods
from controller.placing import Placing
from numalign.kube.compose import Background
from numalign.kube.pod_informer import PodInfo
from numalign.scheduling.binding import Binder, BindMetrics
from numalign.scheduling.scheduler_state import PendingPod

WAIT_SECONDS = 3.0
"""Seconds that a pod waits to be pinned while other pods are being placed on its node; then it is retried."""


def gate_tasks(placing: Placing) -> Background:
    """Reserve, pin and lift, if that is enabled."""
    if not placing.settings.gates:
        return Background()
    settings, state = placing.settings, placing.state
    queue, turns = GateQueue(), NamespaceTurns(placing.clock)
    metrics = GateMetrics.of(placing.registry, queue.__len__)
    pods = GatedPods(placing.api, metrics, placing.log, placing.wall)
    pins = PinWriter(pods, state.reservations, placing.has_node)
    binder = Binder(
        state=state,
        write=pins,
        acts_for=placing.election.acts_for,
        patience=WAIT_SECONDS,
        unknown=settings.unknown_nodes,
        log=placing.log,
        metrics=BindMetrics.of(placing.registry),
        clock=placing.clock,
        sleep=placing.sleep,
    )
    gate_patience, pin_patience = settings.gate_patience_seconds, settings.pin_patience_seconds
    pinned = PinnedPods(
        state=state,
        pods=pods,
        metrics=metrics,
        leading=placing.leading,
        publish=placing.publish,
        turns=turns,
        lacking=queue.lacking,
        patience=pin_patience,
        # Others that wait get the zones of a stalled pin before their patience ends.
        contested=min(gate_patience / 2 or pin_patience / 4, pin_patience),
        log=placing.log,
        clock=placing.clock,
        wall=placing.wall,
        sleep=placing.sleep,
    )

    def refusing(pod: PodInfo, pending: PendingPod) -> Sequence[str]:
        return placing.refusals.nodes(pod.namespace, pending.demand)

    exclusion = Exclusion(state, placing.nodes, refusing)
    keeper = GateKeeper(
        state=state,
        chooser=Chooser(state, placing.nodes, placing.ranker, placing.fit, refusing, placing.held),
        exclusion=exclusion,
        binder=binder,
        pods=pods,
        pins=pins,
        queue=queue,
        turns=turns,
        metrics=metrics,
        leading=placing.leading,
        publish=placing.publish,
        pinned=pinned.expect,
        patience=gate_patience,
        log=placing.log,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    for watcher in (keeper.update_pod, pinned.update_pod, exclusion.bound_fit.update_pod):
        placing.watch(watcher)
    placing.cache_getters.append(keeper.caches)
    return Background({"gates": keeper.place, "patience": keeper.lift, "pins": pinned.run})
