"""
Which pods would have to move for one to fit: the cluster with all its pods, and the answer.

Pods come from the same documents as everything else. Each is read twice: as a pod on its node, by the common
reader, and, once it might have to move, as what its owner would recreate.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry

from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter, counted, full_name, notify, some, zones
from kubectl_numa.pages import intent_text
from kubectl_numa.questions import ClusterView, PodDecision
from kubectl_numa.selection import PodSelection
from numalign.cache import Question, dra
from numalign.cache.pod_question import Exempt, PodQuestion
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.command_line import Trouble
from numalign.kube.decode import placements
from numalign.kube.decode.parts import Part, inner
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.recreated import RecreatedScheduling, without_exclusions, without_pin
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.errors import Forbidden
from numalign.kube.files import documents
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import PODS_IN_FILES, Object
from numalign.kube.pod_informer import PodInfo, PodInformer
from numalign.ledger.reservations import Reservations
from numalign.model.intent import PINNED_AT, Match
from numalign.model.node import Node
from numalign.runtime import logs
from numalign.scheduling import defragmentation
from numalign.scheduling.defragmentation import Advice, Hindrance, Move, Newcomer, Plan, Remedy, Resident
from numalign.scheduling.evictable import SENTENCES, obstacle
from numalign.scheduling.scheduler_state import SchedulerState

_CLASSES: Mapping[str, int] = MappingProxyType(
    {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
)
"""The priority classes of every cluster (pkg/apis/scheduling/types.go)."""

_INDENT = 10
_INNER = 16
_MOST_STAYING = 8
_STYLES = {
    Remedy.FITS: "green",
    Remedy.WAITS: "green",
    Remedy.MOVES: "yellow",
    Remedy.STUCK: "red",
    Remedy.NEVER: "red",
}


@dataclass(frozen=True, slots=True)
class PlacedPods:
    """The pods of a cluster: as a ledger sees them, and as they are stored, by UID.

    `problems` are what could not be read. Unless `complete`, there may be unknown pods.
    """

    state: SchedulerState
    stored: Mapping[str, Object]
    problems: tuple[object, ...]
    complete: bool

    def selects(self, selection: PodSelection, pod: PodInfo) -> bool:
        """Return whether one of these pods is selected, by its namespace and its labels."""
        labels = Part(self.stored[pod.uid])["metadata"]["labels"].text_map()
        return selection.selects(pod.namespace, labels)

    @property
    def running(self) -> Iterable[PodInfo]:
        """Return those that are on a node and have not ended."""
        return (pod for pod in self.state.pods.values() if pod.node and not pod.ended)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes with known topology, by name, with what is free there beside these pods."""
        now, ledger = self.state.clock(), self.state.reservations
        every = (ledger.free_capacity(name, now=now) for name in sorted(ledger.node_names()))
        return tuple(free.node for free in every if free)


def placed_pods(view: ClusterView, objects: Sequence[object], *, match: Match, complete: bool) -> PlacedPods:
    """Return the same as `placing`, to callers that run no event loop."""
    return asyncio.run(placing(view, objects, match=match, complete=complete))


async def placing(
    view: ClusterView, objects: Sequence[object], *, match: Match, complete: bool
) -> PlacedPods:
    """Return the pods in these documents, on the nodes of a cluster; `complete` if all were requested."""
    pods = (
        _stored(document.raw)
        for document in documents.objects(objects)
        if (document.group, document.kind) == ("", PODS_IN_FILES.kind) and not document.trouble
    )
    stored = {uid_of(pod): pod for pod in pods}
    # Invalid pods are reported with all that was skipped.
    silent = logs.to(StringIO(), level="error", form="text")
    keeper = PolicyKeeper(None, log=silent, registry=CollectorRegistry())
    keeper.now = view.policy
    # Whoever adds a pending pod to a file to ask about it leaves out those that run.
    has_all_pods = complete or any(inner(raw.get("spec"), "nodeName") for raw in stored.values())
    state = SchedulerState(
        Reservations(),
        cluster=view.cluster,
        policy=keeper,
        match=match,
        clock=lambda: view.seen,
        wall=lambda: view.seen,
        complete=lambda _settled: has_all_pods,
    )
    informer = PodInformer(
        state, state.reader, recreated=RecreatedScheduling(), log=silent, registry=CollectorRegistry()
    )
    for raw in stored.values():
        informer.put(raw)
    return PlacedPods(state, stored, tuple(informer.problems()), has_all_pods)


def require_pods(placed: PlacedPods) -> None:
    """Raise `Trouble` if the source was a snapshot without pods on nodes."""
    if not placed.complete:
        raise Trouble(
            "the snapshot contains no pods on nodes: write it with `kubectl numa snapshot --with-pods`"
        )


def placed_if_permitted(
    source: ClusterSource, view: ClusterView, objects: list[object], *, match: Match
) -> PlacedPods:
    """Return all pods, on the nodes of a cluster, for an answer that is less exact without them.

    If they may not be listed, that is reported on standard error. Raise `ClusterError`.
    """
    every, complete = objects, source.snapshot is None
    try:
        every = [*objects, *source.running.pods()] if complete else objects
    except Forbidden as error:
        notify(f"pods: unknown, so only what nodes report is counted: {error}")
        complete = False
    return placed_pods(view, every, match=match, complete=complete)


def _stored(raw: Mapping[str, Any]) -> Object:
    """Return the pod as it would be stored: files written by hand have neither namespace nor UID."""
    pod = PODS_IN_FILES.described(dict(raw))
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict):
        return pod
    namespace = metadata.get("namespace") or "default"
    metadata |= {"namespace": namespace}
    metadata.setdefault("uid", f"{namespace}.{metadata.get('name')}")
    return pod


def uid_of(pod: Object) -> str:
    """Return the UID of a stored object."""
    return str(inner(pod.get("metadata"), "uid"))


def priority_of(pod: object, placed: PlacedPods) -> int | None:
    """Return the priority of a pod, or that of its class; None if the class is unknown here."""
    spec = inner(pod, "spec")
    stated, name = inner(spec, "priority"), inner(spec, "priorityClassName")
    if isinstance(stated, int):
        return stated
    if not isinstance(name, str) or not name:
        return 0
    if name in _CLASSES:
        return _CLASSES[name]
    others = (inner(raw, "spec") for raw in placed.stored.values())
    priorities = (inner(other, "priority") for other in others if inner(other, "priorityClassName") == name)
    return next((priority for priority in priorities if isinstance(priority, int)), None)


def advise(  # noqa: PLR0913  a pod, a cluster, and how much of an answer is wanted
    pod: PodDecision,
    view: ClusterView,
    placed: PlacedPods,
    *,
    priority: int,
    nodes: Sequence[str] | None = None,
    uid: str = "",
    plans: int = 1,
    progress: Callable[[str], object] = lambda _doing: None,
) -> Advice:
    """Return which pods would have to move for a pod to fit on one of these nodes, by default on any."""
    residents = defaultdict[str, list[Resident]](list)
    for each in placed.running:
        why = obstacle(placed.stored[each.uid])
        stays = SENTENCES[why] if why and not each.leaving else ""
        name = (each.namespace, each.name)
        residents[each.node].append(
            Resident(each.uid, name, each.priority, each.created, stays, each.leaving)
        )
    cluster = defragmentation.ResidentCluster(
        placed.state.reservations,
        placed.state.cache,
        residents,
        lambda uid: newcomer(placed.stored[uid], view, placed.state.reader),
        view.seen,
    )
    new = Newcomer(uid, (pod.namespace, pod.name), view.by_node(pod), pod.constraints)
    names = [node.name for node in view.cluster.nodes] if nodes is None else nodes
    return defragmentation.advise(new, priority, cluster, names, plans=plans, progress=progress)


def newcomer(stored: Object, view: ClusterView, reader: PodReader) -> Newcomer | None:
    """Return what a stored pod requests when its owner recreates it; None if it is invalid.

    Nodes that numalign chose or excluded as it lifted the gate are not part of the recreated pod.
    """
    metadata = stored["metadata"]
    uid, name = uid_of(stored), (str(metadata["namespace"]), str(metadata["name"]))
    reading = reader.read(stored, name[0], view.policies)
    match reading:
        case PodQuestion():
            question, constraints = reading.question, reading.constraints
        case Exempt(_, demand) if demand is not None:
            question, constraints = Question(demand, NO_INTENT), scheduling(stored).constraints
        case _:
            return None
    constraints = without_exclusions(constraints)
    if inner(metadata.get("annotations"), PINNED_AT) is not None:
        constraints = without_pin(constraints, str(inner(stored["spec"], "nodeName")))
    return Newcomer(uid, name, dra.by_node(question, view.cluster.served), constraints)


def summary(advice: Advice) -> str:
    """Return the answer in a sentence without a full stop."""
    if advice.remedy is Remedy.FITS:
        return f"fits now on {some(advice.fitting)}: nothing has to move"
    if advice.remedy is Remedy.NEVER:
        return "fits on none of the nodes that it may run on, even if other pods move"
    if advice.remedy is Remedy.STUCK and not advice.candidates:
        return "fits on no node that is available now; others are cordoned, not ready or not evaluated"
    if advice.remedy is Remedy.STUCK:
        many = f"any of {advice.candidates:,} nodes that could take it"
        nodes = "the one node that could take it" if advice.candidates == 1 else many
        return f"fits nowhere now, and moving pods does not help on {nodes}"
    best = advice.plans[0]
    if advice.remedy is Remedy.WAITS:
        return f"fits nowhere now, but will fit on {best.node} after the deletion of {_listed(best.leaving)}"
    moved = _listed([move.resident for move in best.moves])
    return f"fits nowhere now, but would fit on {best.node} if {moved} moved"


def _named(pod: Resident) -> str:
    return "/".join(pod.name)


def _listed(pods: Sequence[Resident]) -> str:
    return some(map(_named, pods))


def to_json(pod: PodDecision, priority: int, advice: Advice) -> dict[str, Any]:
    """Return the advice for programs."""
    return {
        "pod": pod.name,
        "namespace": pod.namespace or None,
        "priority": priority,
        "answer": advice.remedy,
        "proven": advice.proven,
        "candidates": advice.candidates,
        "fits": list(advice.fitting),
        "plans": [
            {
                "node": plan.node,
                "placement": placements.render_held(plan.held),
                "leaving": [_identity(each) for each in plan.leaving],
                "moves": [
                    {
                        **_identity(move.resident),
                        "to": move.node,
                        "placement": placements.render_held(move.prediction.held or {}),
                        "afterThePod": move.after,
                    }
                    for move in plan.moves
                ],
            }
            for plan in advice.plans
        ],
        "inTheWay": [
            {
                "node": each.node,
                "reason": each.reason,
                "noOtherPlace": [_identity(resident) for resident in each.unplaced],
                "stay": [{**_identity(resident), "why": resident.obstacle} for resident in each.staying],
            }
            for each in advice.hindrances
        ],
    }


def _identity(pod: Resident) -> dict[str, Any]:
    namespace, name = pod.name
    return {"namespace": namespace, "name": name, "priority": pod.priority, "created": pod.created}


def show(pod: PodDecision, advice: Advice, writer: TextWriter, *, now: float, never: str = "") -> None:
    """Write the whole advice; `now` is in seconds since 1970, `never` is why no node ever takes the pod."""
    writer.entry("", f"{full_name(pod.namespace, pod.name)} {intent_text(pod)}", indent=0, style="bold")
    writer.entry("  ", summary(advice), indent=2, style=_STYLES[advice.remedy])
    if never:
        writer.entry("  never:", never, indent=_INDENT, label_style="red")
    for plan in advice.plans:
        _draw_plan(plan, writer, now=now)
    for hindrance in advice.hindrances:
        _draw_hindrance(hindrance, writer)
    if words := _certainty(advice):
        writer.write("")
        writer.entry("  ", words, indent=2, style="dim")


def _certainty(advice: Advice) -> str:
    """Return whether there may be a better plan; "" if none was looked for."""
    if advice.remedy in (Remedy.FITS, Remedy.NEVER) or not advice.candidates:
        return ""
    if advice.plans:
        sure = "moving fewer or less important pods would not be enough"
        perhaps = "moving fewer or less important pods may be enough: not all combinations were tried"
        return sure if advice.proven else perhaps
    return (
        ""
        if advice.proven
        else f"not all combinations of more than {defragmentation.EXHAUSTIVE} pods were tried"
    )


def _draw_plan(plan: Plan, writer: TextWriter, *, now: float) -> None:
    writer.write("")
    writer.entry("  room on ", plan.node, indent=_INDENT, style="bold")
    for pod in plan.leaving:
        writer.entry("    wait", f"for {_named(pod)}, which is being deleted", indent=_INDENT)
    for move in plan.moves:
        if not move.after:
            _draw_move(move, writer, now=now)
    writer.entry("    then", f"the pod gets {zones(placements.render_held(plan.held))}", indent=_INDENT)
    for move in plan.moves:
        if move.after:
            _draw_move(move, writer, now=now)


def _draw_move(move: Move, writer: TextWriter, *, now: float) -> None:
    pod, age = move.resident, ""
    if pod.created:
        seconds = max(0, int(now - pod.created))
        units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
        size, unit = next(((size, unit) for size, unit in units if seconds >= size), (1, "s"))
        age = f", {seconds // size}{unit} old"
    writer.entry("    move", f"{_named(pod)} (priority {pod.priority:,}{age})", indent=_INDENT)
    to = f"back to {move.node}, after the pod was placed" if move.after else f"to {move.node}"
    gets = zones(placements.render_held(move.prediction.held or {}))
    writer.entry("", f"{to}: {gets}", indent=_INNER)


def _draw_hindrance(hindrance: Hindrance, writer: TextWriter) -> None:
    writer.write("")
    writer.entry("  not on ", hindrance.node, indent=_INDENT, style="bold")
    if hindrance.unplaced:
        words = f"{_listed(hindrance.unplaced)} would have to move, but there is no place for all of them"
        writer.entry("    why", words, indent=_INDENT)
    elif hindrance.reason:
        writer.entry("    why", f"{hindrance.reason}, even if all pods that may move did", indent=_INDENT)
    for pod in hindrance.staying[:_MOST_STAYING]:
        writer.entry("    stays", f"{_named(pod)}: {pod.obstacle}", indent=_INDENT)
    if (more := len(hindrance.staying) - _MOST_STAYING) > 0:
        writer.entry("    stays", f"and {counted(more, 'more pod')}", indent=_INDENT)
