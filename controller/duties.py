"""The pod-related parts of the controller; each runs nothing if its setting is off."""

from collections.abc import Sequence

from controller.gates.choosing import Chooser
from controller.gates.exclusion import Exclusion
from controller.gates.judging import unjudged
from controller.gates.keeper import GateKeeper
from controller.gates.metrics import GateMetrics
from controller.gates.pods import GatedPods, PinWriter
from controller.gates.queue import GateQueue
from controller.gates.turns import NamespaceTurns
from controller.gates.unplaced import PinnedPods
from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import Healer
from controller.healing.marks import MarkWriter
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.placing import Placing, PodDuty
from controller.refused.removal import RefusedPods
from controller.refused.remover import Remover
from controller.refused.reporter import RefusalReporter, WatchedRefusals
from controller.refused.watch import exempt
from controller.reports.offenders import OffenderReports
from controller.reports.owner_events import OwnerEvents
from controller.reports.writer import ReportWriter
from numalign.kube.compose import Background
from numalign.kube.pod_informer import PodInfo
from numalign.map.access import TokenAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState
from numalign.runtime.server import BackgroundTask
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
    metrics = GateMetrics(placing.registry, queue.__len__)
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


def refused_pod_tasks(placing: Placing) -> Background:
    """Report rejected pods, and delete them if that is enabled."""
    reporter = RefusalReporter(
        exempt=lambda pod: exempt(placing.effective_policy(), pod),
        leading=lambda: placing.state.cluster.listed and placing.leading(),
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    placing.watch(WatchedRefusals(placing.state, reporter, clock=placing.clock).update_pod)
    tasks: dict[str, BackgroundTask] = {"refusals": reporter.run}
    if placing.settings.heal:
        pods = RefusedPods(placing)
        placing.watch(pods.update_pod)
        remover = Remover(
            placing.api,
            due=pods.due,
            permitted=pods.permitted,
            leading=placing.leading,
            publish=placing.publish,
            log=placing.log,
            registry=placing.registry,
            clock=placing.clock,
            sleep=placing.sleep,
        )
        tasks["removals"] = remover.run
    return Background(tasks)


def healing_tasks(placing: Placing) -> Background:
    """Return the tasks that report misaligned pods and move them; none unless healing is enabled."""
    if not placing.settings.heal:
        return Background()
    alignments = RunningPodAlignments(placing.state, named=placing.settings.named_namespaces)
    placing.registry.register(alignments)
    owners = Owners()
    marks = MarkWriter(
        api=placing.api,
        state=placing.state,
        alignments=alignments,
        owners=owners,
        leading=placing.leading,
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    moves = Moves(
        state=placing.state,
        alignments=alignments,
        held=placing.held,
        owners=owners,
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
    )
    healer = Healer(
        api=placing.api,
        state=placing.state,
        alignments=alignments,
        places=BetterPlaces(placing.state, placing.nodes, placing.ranker, placing.fit.fits),
        held=placing.held,
        limits=EvictionLimits(Rates.of(placing.settings), placing.clock()),
        owners=owners,
        moves=moves,
        gates=placing.settings.gates,
        unplaceable=unjudged,
        written_until=marks.written_until,
        leading=placing.leading,
        acts_for=placing.election.acts_for,
        publish=placing.publish,
        log=placing.log,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    placing.watch(alignments.update_pod)
    return Background({"marks": marks.run, "healing": healer.run})


def owner_event_tasks(placing: Placing) -> Background:
    """Write events on the owners of pods below the level of their namespace, if that is enabled."""
    if not placing.settings.owner_events:
        return Background()
    events = OwnerEvents(
        api=placing.api,
        state=placing.state,
        leading=placing.leading,
        publish=placing.publish,
        log=placing.log,
        sleep=placing.sleep,
    )
    placing.watch(events.update_pod)
    return Background({"owners": events.run})


def report_tasks(placing: Placing) -> Background:
    """Keep policy reports up to date, if that is enabled."""
    if not placing.settings.policy_reports:
        return Background()
    offenders = OffenderReports(
        state=placing.state, unknown_may_fit=placing.settings.unknown_may_fit, wall=placing.wall
    )
    placing.watch(offenders.alignments.update_pod)
    placing.cache_getters.append(offenders.caches)
    writer = ReportWriter(
        api=placing.api,
        reports=offenders.reports,
        leading=placing.leading,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        wall=placing.wall,
        sleep=placing.sleep,
    )
    return Background({"reports": writer.run})


def map_tasks(placing: Placing) -> Background:
    """Serve the map to users with access, if it is enabled."""
    settings = placing.settings
    if not settings.map:
        return Background()
    access = TokenAccess(
        placing.api,
        audience=settings.map_audience,
        review_seconds=settings.map_review_seconds,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
    )
    map_state = MapState(placing.state)
    service = MapService(
        map_state, access, Streams(placing.registry), log=placing.log, waiting_for=placing.waiting_for
    )
    placing.cache_getters.append(access.caches)
    return Background({"map": service.follow}, installs=(service.install,))


DUTIES: tuple[PodDuty, ...] = (
    gate_tasks,
    refused_pod_tasks,
    healing_tasks,
    report_tasks,
    owner_event_tasks,
    map_tasks,
)
