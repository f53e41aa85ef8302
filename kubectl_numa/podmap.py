"""
What running pods hold: their zones, CPUs and devices, and whether they are aligned as they request.

A pod is listed with what was observed. For one without observations nothing is guessed: the listing says so,
and what would be needed for more. Reserved zones are shown as reserved. The other listings are of the pods
that a kubelet rejected, and of the namespaces with a limit of exclusive CPUs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubectl_numa.lines import TextWriter, counted, some, zones
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from kubectl_numa.selection import PodSelection
from numalign.decision.alignment import Alignment, Judgement, why
from numalign.kube.decode import placements
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.free import sharing
from numalign.ledger.model import NodeInfo, PlacementRecord
from numalign.model.intent import Exclusive, Intent, Policy
from numalign.model.machine import CpuSet, render_list
from numalign.model.placement import Held
from numalign.model.resources import Kind, kind, render
from numalign.scheduling import rejected_pods
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.running_pods import runs

_STYLES = {Judgement.ALIGNED: "green", Judgement.MISALIGNED: "red"}
_NOT_JUDGED, _NOT_REQUESTED = "not judged", "not requested"
_INDENT = 4


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod, its alignment, and what it is known to hold; None if nothing is known.

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
    def aligned(self) -> bool | None:
        """Return whether it is aligned; None if that is unknown."""
        known = {Judgement.ALIGNED: True, Judgement.MISALIGNED: False}
        return known.get(self.alignment.judgement)

    @property
    def word(self) -> str:
        """Return the same as a word."""
        if self.intent is None:
            return _NOT_REQUESTED
        return _NOT_JUDGED if self.aligned is None else self.alignment.word

    @property
    def held(self) -> Held:
        """Return what it holds, by the names of zones; empty if that is unknown."""
        return self.record.held if self.record else {}

    @property
    def cpu_ids(self) -> str | None:
        """Return the IDs of its exclusive CPUs in the kernel's list format; None if not reported."""
        return render_list(self.record.cpus) if self.record and self.record.cpus else None

    def amount(self, *kinds: Kind) -> str:
        """Return what it holds of the resources of these kinds: `8`, `64Gi`, `2 nvidia.com/gpu`."""
        totals: dict[str, int] = {}
        for bag in self.held.values():
            for name, amount in bag.items():
                totals[name] = totals.get(name, 0) + amount
        chosen = sorted(name for name in totals if kind(name) in kinds and totals[name])
        return ", ".join(
            render(name, totals[name]) + ("" if name == kind(name) else f" {name}") for name in chosen
        )


def rows(placed: PlacedPods, selection: PodSelection, *, every: bool = False) -> tuple[PodRow, ...]:
    """Return the running pods that request alignment, by namespace and name.

    With `every`, also those that request none, if resources of zones are allocated to them.
    """
    reservations = placed.state.reservations
    listed = [
        row
        for name in reservations.node_names()
        if (info := reservations.node_info(name))
        for row in _on_node(placed, info, name)
        if (every or row.intent) and placed.selects(selection, row.pod)
    ]
    return tuple(sorted(listed, key=lambda row: (row.pod.namespace, row.pod.name)))


def _on_node(placed: PlacedPods, info: NodeInfo, name: str) -> Iterator[PodRow]:
    judged = {entry.pod.uid: entry for entry in pod_alignments(placed.state, name)}
    for assigned_pod in info.assigned_pods:
        pod, entry = placed.state.pods.get(assigned_pod.uid), judged.get(assigned_pod.uid)
        record = assigned_pod.record
        holds = record is not None and bool(record.held)
        if not pod or not runs(pod) or not (entry or (holds and assigned_pod.intent.policy is Policy.NONE)):
            continue
        intent = entry.pending.question.intent if entry else None
        alone = intent is not None and intent.exclusive
        others = sharing(info.node, info.assigned_pods, assigned_pod) if alone else ()
        cpus: dict[str, CpuSet] = {}
        if record and record.cpus and (machine := info.node.machine):
            by_id = dict(zip(machine.zones, machine.topology.zones, strict=True))
            shares = ((zone.name, by_id.get(zone.id, 0) & record.cpus) for zone in info.node.zones)
            cpus = {zone: share for zone, share in shares if share}
        alignment = entry.alignment if entry else Alignment(Judgement.NOT_ASKED)
        beside = tuple(sorted("/".join(other.name) for other in others))
        yield PodRow(pod, intent, alignment, record, cpus, beside)


def listing(listed: Sequence[PodRow]) -> Listing:
    """Return these pods as a listing; in documents `aligned` is null if unknown."""
    return Listing(
        ("namespace", "name", "node", "policy", "aligned", "zones", "cpus"),
        (
            ListedRow(
                f"pod/{row.pod.name}",
                (
                    *(row.pod.namespace, row.pod.name, row.pod.node, row.policy, row.word),
                    ",".join(sorted({zone for several in row.held for zone in several})),
                    row.amount(Kind.CPU),
                    *(row.cpu_ids, row.amount(Kind.MEMORY), row.amount(Kind.DEVICE)),
                    *(row.record and row.record.source, why(row.alignment)),
                ),
            )
            for row in listed
        ),
        lambda: [
            {
                "namespace": row.pod.namespace,
                "name": row.pod.name,
                "uid": row.pod.uid,
                "node": row.pod.node,
                "policy": row.policy,
                "exclusive": Exclusive.ZONE if row.intent and row.intent.exclusive else None,
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
        ],
        wide_columns=("cpu ids", "memory", "devices", "known", "why"),
        text=lambda writer: _draw(listed, writer),
    )


def _draw(listed: Sequence[PodRow], writer: TextWriter) -> None:
    """Draw every pod in two or three lines, and how many there are of each kind."""
    for row in listed:
        pod = row.pod
        alone = ", exclusive" if row.intent and row.intent.exclusive else ""
        head = f"{pod.namespace}/{pod.name}  on {pod.node}  {row.policy}{alone}  "
        style = _STYLES.get(row.alignment.judgement, "yellow")
        style = "yellow" if row.alignment.partial else style
        writer.entry(head, row.word, indent=len(head), style=style)
        if row.record and not row.record.unknown:
            writer.entry("", zones(placements.render_held(row.record.held)), indent=_INDENT)
        if row.cpu_ids:
            by_zone = [f"{render_list(ids)} in {zone}" for zone, ids in row.cpus.items()]
            writer.entry("", f"CPUs {'; '.join(by_zone) or row.cpu_ids}", indent=_INDENT)
        if row.intent and (text := why(row.alignment)):
            writer.entry("", text, indent=_INDENT)
        if row.beside:
            writer.entry("", f"shares its zones with {some(row.beside)}", indent=_INDENT, style="red")
    summary = "no running pod requests alignment"
    if listed:
        # The most important words first.
        order = [Judgement.MISALIGNED.value, Judgement.ALIGNED.value, _NOT_JUDGED, _NOT_REQUESTED]
        counts = Counter(row.word for row in listed)
        words = sorted(counts, key=lambda word: (order.index(word.partition(" (")[0]), word))
        by_word = ", ".join(f"{counts[word]:,} {word}" for word in words)
        summary = f"{counted(len(listed), 'pod')}: {by_word}"
    writer.line("", summary, indent=0)


def rejected_listing(placed: PlacedPods, selection: PodSelection, *, now: float) -> Listing:
    """Return the rejected pods that are selected, the last ones first; `now` is in seconds since 1970."""
    pods = [
        rejected
        for pod in placed.state.pods.values()
        if (rejected := rejected_pods.of_pod(pod)) and placed.selects(selection, pod)
    ]
    pods.sort(key=lambda pod: (-pod.at, pod.namespace, pod.name))
    owners = [f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else "" for pod in pods]

    def draw(writer: TextWriter) -> None:
        for pod, owner in zip(pods, owners, strict=True):
            of = f" of {owner}" if owner else ""
            writer.entry("", f"{pod.namespace}/{pod.name}{of}", indent=0, style="bold")
            writer.entry("", pod.sentence(now), indent=4, style="red")
        reasons = Counter(pod.reason for pod in pods).most_common()
        of_each = some(f"{count:,} {reason}" for reason, count in reasons)
        none = "no kubelet has rejected a pod that still exists"
        writer.line("", f"{counted(len(pods), 'pod')}: {of_each}" if pods else none, indent=0)

    return Listing(
        ("namespace", "name", "node", "rejected", "reason", "owner"),
        (
            ListedRow(
                f"pod/{pod.name}",
                (pod.namespace, pod.name, pod.node, pod.when(now), pod.reason, owner, pod.message),
            )
            for pod, owner in zip(pods, owners, strict=True)
        ),
        lambda: [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "owner": {"kind": pod.owner.kind, "name": pod.owner.name} if pod.owner else None,
                **pod.to_json(),
            }
            for pod in pods
        ],
        wide_columns=("message",),
        text=draw,
    )


def quota_listing(placed: PlacedPods, view: ClusterView, selection: PodSelection) -> Listing:
    """Return the selected namespaces with a limit of exclusive CPUs, by name; labels select none of them."""
    pending = Counter[str]()
    for pod in placed.state.pods.values():
        demand = pod.demand or pod.request.most
        # What is reserved for a pod that is pinned is in use.
        if demand and not (pod.ended or placed.state.reservations.node_of(pod.uid)):
            pending[pod.namespace] += demand.exclusive_cpus
    found = [
        (namespace, quota.used, pending[namespace], quota.limit)
        for namespace in sorted(view.cluster.namespaces)
        if selection.selects(namespace, {}) and (quota := placed.state.quota(namespace))
    ]

    def draw(writer: TextWriter) -> None:
        for namespace, used, unplaced, limit in found:
            more = f", {unplaced} more requested by pods without a node" if unplaced else ""
            words = f"{used} of {limit} exclusive CPUs in use{more}"
            style = "yellow" if used + unplaced > limit else ""
            label = f"{namespace}  "
            writer.line(label, words, indent=len(label), style=style, label_style="bold")
        some_do = f"{counted(len(found), 'namespace')} with a limit of exclusive CPUs"
        writer.line("", some_do if found else "no namespace has a limit of exclusive CPUs", indent=0)

    columns = ("namespace", "used", "pending", "limit")
    return Listing(
        columns,
        (ListedRow(f"namespace/{cells[0]}", cells) for cells in found),
        lambda: [dict(zip(columns, cells, strict=True)) for cells in found],
        text=draw,
    )
