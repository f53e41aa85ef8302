"""
How the pods that ask for alignment sit: where they are, what they hold, and whether that is what they asked.

A pod is listed as what somebody saw of it. Of one that nobody looked at nothing is guessed: it says so, and
what would have to be there for more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubectl_numa.lines import Paper, counted, some, zones
from kubectl_numa.moving import PlacedPods
from numalign.decision.alignment import Judgement, why
from numalign.kube.decode import placements
from numalign.ledger.model import NodeInfo, PlacementRecord
from numalign.ledger.occupancy import sharing
from numalign.model.intent import Exclusive
from numalign.scheduling.sitting import Sitting, sittings

STYLES = {Judgement.ALIGNED: "green", Judgement.MISALIGNED: "red"}
NOT_JUDGED = "not judged"

_INDENT = 4


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod, how it sits, and what is known that it holds; None if nothing is.

    `beside` are the names of pods with an intent on its zones, of one that is to be alone.
    """

    sitting: Sitting
    record: PlacementRecord | None
    beside: tuple[str, ...] = ()

    @property
    def exclusive(self) -> bool:
        """Whether it is to be alone in its zones."""
        return self.sitting.pending.question.intent.exclusive

    @property
    def aligned(self) -> bool | None:
        """Whether it sits as it was meant; None where nobody can say."""
        return _ALIGNED.get(self.sitting.alignment.judgement)

    @property
    def word(self) -> str:
        """The same as a word."""
        judgement = self.sitting.alignment.judgement
        return NOT_JUDGED if self.aligned is None else judgement.value


_ALIGNED = {Judgement.ALIGNED: True, Judgement.MISALIGNED: False}


def rows(placed: PlacedPods, *, namespace: str | None = None) -> tuple[PodRow, ...]:
    """The pods that run and ask for alignment, by namespace and name; of one namespace, if it is named."""
    state = placed.state
    found = [
        _row(sitting, info)
        for name in state.reservations.node_names()
        if (info := state.reservations.node_info(name))
        for sitting in sittings(state, name)
        if namespace in (None, sitting.pod.namespace)
    ]
    return tuple(sorted(found, key=lambda row: (row.sitting.pod.namespace, row.sitting.pod.name)))


def _row(sitting: Sitting, info: NodeInfo) -> PodRow:
    pod = next((pod for pod in info.assigned_pods if pod.uid == sitting.pod.uid), None)
    if pod is None:
        return PodRow(sitting, None)
    others = sharing(info.node, info.assigned_pods, pod) if pod.intent.exclusive else ()
    return PodRow(sitting, pod.record, tuple(sorted("/".join(other.name) for other in others)))


def draw(listed: Sequence[PodRow], paper: Paper) -> None:
    """Every pod in two or three lines, and how many there are of each sort."""
    for row in listed:
        pod, intent = row.sitting.pod, row.sitting.pending.question.intent
        alone = ", alone" if row.exclusive else ""
        head = f"{pod.namespace}/{pod.name}  on {pod.node}  {intent.policy}{alone}  "
        paper.entry(
            head, row.word, indent=len(head), style=STYLES.get(row.sitting.alignment.judgement, "yellow")
        )
        if row.record and not row.record.unknown:
            paper.entry("", zones(placements.render_held(row.record.held)), indent=_INDENT)
        if text := why(row.sitting.alignment):
            paper.entry("", text, indent=_INDENT)
        if row.beside:
            paper.entry("", f"shares its zones with {some(row.beside)}", indent=_INDENT, style="red")
    paper.write(_summary(listed))


def _summary(listed: Sequence[PodRow]) -> str:
    if not listed:
        return "no pod that runs asks for alignment"
    counts = [(word, sum(row.word == word for row in listed)) for word in dict.fromkeys(_words(listed))]
    return f"{counted(len(listed), 'pod')}: {', '.join(f'{count:,} {word}' for word, count in counts)}"


def _words(listed: Iterable[PodRow]) -> Iterator[str]:
    """Those that matter first."""
    order = [Judgement.MISALIGNED.value, Judgement.ALIGNED.value, NOT_JUDGED]
    return iter(sorted((row.word for row in listed), key=order.index))


def to_json(listed: Iterable[PodRow]) -> list[dict[str, Any]]:
    """The same for programs; `aligned` is null where nobody can say, and `known` who says what it holds."""
    return [
        {
            "namespace": row.sitting.pod.namespace,
            "name": row.sitting.pod.name,
            "uid": row.sitting.pod.uid,
            "node": row.sitting.pod.node,
            "policy": row.sitting.pending.question.intent.policy,
            "exclusive": Exclusive.ZONE if row.exclusive else None,
            "sharesWith": list(row.beside),
            "aligned": row.aligned,
            "judgement": row.sitting.alignment.judgement,
            "why": why(row.sitting.alignment) or None,
            "known": row.record.source if row.record else None,
            "placement": placements.render_held(row.record.held) if row.record else None,
        }
        for row in listed
    ]
