"""
What running pods hold: their zones, CPUs and devices, and whether they are aligned as they request.

A pod is listed with what was observed. For one without observations nothing is guessed: the listing says so,
and what would be needed for more. Reserved zones are shown as reserved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kubectl_numa.lines import TextWriter, counted, some, zones
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.running_pods import labels_of
from kubectl_numa.selection import PodSelection
from numalign.decision.alignment import Alignment, Judgement, why
from numalign.kube.decode import placements
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod, NodeInfo, PlacementRecord
from numalign.ledger.occupancy import sharing
from numalign.model.intent import Exclusive, Intent, Policy
from numalign.model.machine import CpuSet, render_list
from numalign.model.node import Node
from numalign.model.resources import Kind, kind, render
from numalign.scheduling.pod_alignments import PodAlignment, pod_alignments
from numalign.scheduling.running_pods import runs

STYLES = {Judgement.ALIGNED: "green", Judgement.MISALIGNED: "red"}
NOT_JUDGED = "not judged"
UNASKED = "not requested"

_INDENT = 4


@dataclass(frozen=True, slots=True)
class PodRow:
    """
    A pod, its alignment, and what it is known to hold; None if nothing is known.

    `intent` is None if no alignment is requested. `cpus` has the IDs of its exclusive CPUs by the name of
    their zone, if they were reported and the machine is known. `beside` has the names of pods with an intent
    on the zones of a pod that requests them exclusively.
    """

    pod: PodInfo
    intent: Intent | None
    alignment: Alignment
    record: PlacementRecord | None
    cpus: Mapping[str, CpuSet] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def policy(self) -> Policy:
        """Return the policy that it requests."""
        return self.intent.policy if self.intent else Policy.NONE

    @property
    def exclusive(self) -> bool:
        """Return whether it requests its zones exclusively."""
        return self.intent is not None and self.intent.exclusive

    @property
    def aligned(self) -> bool | None:
        """Return whether it is aligned; None if that is unknown."""
        return _ALIGNED.get(self.alignment.judgement)

    @property
    def word(self) -> str:
        """Return the same as a word."""
        if self.intent is None:
            return UNASKED
        return NOT_JUDGED if self.aligned is None else self.alignment.word

    @property
    def style(self) -> str:
        """Return the style of that word."""
        return "yellow" if self.alignment.partial else STYLES.get(self.alignment.judgement, "yellow")

    @property
    def zones(self) -> tuple[str, ...]:
        """Return the names of the zones from which it holds anything."""
        held = self.record.held if self.record else {}
        return tuple(sorted({zone for several in held for zone in several}))

    @property
    def cpu_ids(self) -> str | None:
        """Return the IDs of its exclusive CPUs in the kernel's list format; None if not reported."""
        return render_list(self.record.cpus) if self.record and self.record.cpus else None

    def amount(self, *kinds: Kind) -> str:
        """Return what it holds of the resources of these kinds: `8`, `64Gi`, `2 nvidia.com/gpu`."""
        totals: dict[str, int] = {}
        for bag in (self.record.held if self.record else {}).values():
            for name, amount in bag.items():
                totals[name] = totals.get(name, 0) + amount
        chosen = sorted(name for name in totals if kind(name) in kinds and totals[name])
        return ", ".join(
            render(name, totals[name]) + ("" if name == kind(name) else f" {name}") for name in chosen
        )


_ALIGNED: Mapping[Judgement, bool] = MappingProxyType({Judgement.ALIGNED: True, Judgement.MISALIGNED: False})


def rows(placed: PlacedPods, selection: PodSelection, *, every: bool = False) -> tuple[PodRow, ...]:
    """
    Return the running pods that request alignment, by namespace and name.

    With `every`, also those that request none, if resources of zones are allocated to them.
    """
    reservations = placed.state.reservations
    listed = [
        row
        for name in reservations.node_names()
        if (info := reservations.node_info(name))
        for row in _of_node(placed, info, name)
        if (every or row.intent) and _selects(selection, row.pod, placed)
    ]
    return tuple(sorted(listed, key=lambda row: (row.pod.namespace, row.pod.name)))


def _selects(selection: PodSelection, pod: PodInfo, placed: PlacedPods) -> bool:
    return selection.selects(pod.namespace, labels_of(placed.stored[pod.uid]))


def _of_node(placed: PlacedPods, info: NodeInfo, name: str) -> Iterator[PodRow]:
    judged = {entry.pod.uid: entry for entry in pod_alignments(placed.state, name)}
    for assigned_pod in info.assigned_pods:
        pod, entry = placed.state.pods.get(assigned_pod.uid), judged.get(assigned_pod.uid)
        holds = assigned_pod.record is not None and bool(assigned_pod.record.held)
        if pod and runs(pod) and (entry or (holds and assigned_pod.intent.policy is Policy.NONE)):
            yield _row(pod, entry, assigned_pod, info)


def _row(pod: PodInfo, entry: PodAlignment | None, assigned_pod: AssignedPod, info: NodeInfo) -> PodRow:
    intent = entry.pending.question.intent if entry else None
    alone = intent is not None and intent.exclusive
    others = sharing(info.node, info.assigned_pods, assigned_pod) if alone else ()
    return PodRow(
        pod,
        intent,
        entry.alignment if entry else Alignment(Judgement.NOT_ASKED),
        assigned_pod.record,
        _cpus_by_zone(assigned_pod.record, info.node),
        tuple(sorted("/".join(other.name) for other in others)),
    )


def _cpus_by_zone(record: PlacementRecord | None, node: Node) -> Mapping[str, CpuSet]:
    if record is None or not record.cpus or node.machine is None:
        return {}
    by_id = dict(zip(node.machine.zones, node.machine.topology.zones, strict=True))
    return {zone.name: own for zone in node.zones if (own := by_id.get(zone.id, 0) & record.cpus)}


def listing(listed: Sequence[PodRow]) -> Listing:
    """Return these pods as a listing."""
    return Listing(
        ("namespace", "name", "node", "policy", "aligned", "zones", "cpus"),
        (ListedRow(f"pod/{row.pod.name}", _cells(row)) for row in listed),
        lambda: to_json(listed),
        wide_columns=("cpu ids", "memory", "devices", "known", "why"),
        text=lambda writer: draw(listed, writer),
    )


def _cells(row: PodRow) -> tuple[object, ...]:
    return (
        *(row.pod.namespace, row.pod.name, row.pod.node, row.policy, row.word),
        *(",".join(row.zones), row.amount(Kind.CPU)),
        *(row.cpu_ids, row.amount(Kind.MEMORY), row.amount(Kind.DEVICE)),
        *(row.record and row.record.source, why(row.alignment)),
    )


def draw(listed: Sequence[PodRow], writer: TextWriter) -> None:
    """Draw every pod in two or three lines, and how many there are of each kind."""
    for row in listed:
        pod = row.pod
        alone = ", exclusive" if row.exclusive else ""
        head = f"{pod.namespace}/{pod.name}  on {pod.node}  {row.policy}{alone}  "
        writer.entry(head, row.word, indent=len(head), style=row.style)
        if row.record and not row.record.unknown:
            writer.entry("", zones(placements.render_held(row.record.held)), indent=_INDENT)
        if row.cpu_ids:
            writer.entry("", f"CPUs {_cpu_ids(row)}", indent=_INDENT)
        if row.intent and (text := why(row.alignment)):
            writer.entry("", text, indent=_INDENT)
        if row.beside:
            writer.entry("", f"shares its zones with {some(row.beside)}", indent=_INDENT, style="red")
    writer.line("", _summary(listed), indent=0)


def _cpu_ids(row: PodRow) -> str:
    """Return the IDs by zone, if the machine is known."""
    by_zone = [f"{render_list(ids)} in {zone}" for zone, ids in row.cpus.items()]
    return "; ".join(by_zone) or str(row.cpu_ids)


def _summary(listed: Sequence[PodRow]) -> str:
    if not listed:
        return "no running pod requests alignment"
    counts = [(word, sum(row.word == word for row in listed)) for word in dict.fromkeys(_words(listed))]
    return f"{counted(len(listed), 'pod')}: {', '.join(f'{count:,} {word}' for word, count in counts)}"


def _words(listed: Iterable[PodRow]) -> Iterator[str]:
    """Return the words of the pods, the most important ones first."""
    order = [Judgement.MISALIGNED.value, Judgement.ALIGNED.value, NOT_JUDGED, UNASKED]
    words = (row.word for row in listed)
    return iter(sorted(words, key=lambda word: (order.index(word.partition(" (")[0]), word)))


def to_json(listed: Iterable[PodRow]) -> list[dict[str, Any]]:
    """Return it for programs; `aligned` is null if unknown, and `known` is the source of what it holds."""
    return [
        {
            "namespace": row.pod.namespace,
            "name": row.pod.name,
            "uid": row.pod.uid,
            "node": row.pod.node,
            "policy": row.policy,
            "exclusive": Exclusive.ZONE if row.exclusive else None,
            "sharesWith": list(row.beside),
            "aligned": row.aligned,
            "judgement": row.alignment.judgement,
            "extent": row.alignment.partial and row.alignment.partial.extent,
            "notPinned": list(row.alignment.partial.unpinned) if row.alignment.partial else [],
            "why": why(row.alignment) or None,
            "known": row.record.source if row.record else None,
            "placement": placements.render_held(row.record.held) if row.record else None,
            "cpus": row.cpu_ids,
            "cpusByZone": {zone: render_list(ids) for zone, ids in row.cpus.items()},
        }
        for row in listed
    ]
