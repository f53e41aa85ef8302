"""
Why pods are pending: the causes, with how many pods each keeps, whose they are, and what would help.

Pods of one template ask for the same, so only one of them is evaluated; and pods whose causes read the same
are counted together, whatever else differs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubectl_numa import moving
from kubectl_numa.explanation import Explanation, explain, why_never
from kubectl_numa.lines import TextWriter, counted, some
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView, PodDecision
from kubectl_numa.selection import PodSelection
from numalign.decision.wording import ago, nodes
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.model.errors import BadPod
from numalign.model.intent import PLACEMENT_GATE
from numalign.scheduling.defragmentation import Remedy
from numalign.scheduling.node_explanation import PLACES, Chance, counted_by_reason

MOST_ADVISED = 5
"""The limit of causes for which it is computed which pods would have to move: those of the most pods."""

_INDENT = 14


class PendingVerdict(StrEnum):
    """What kind of cause keeps a pod pending, those that need an owner or an operator first."""

    NEVER = "never"
    LATER = "later"
    FITS = "fits"
    GATED = "gated"
    QUOTA = "quota"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"


_MOST_REASONS = 3
_STYLES = {PendingVerdict.NEVER: "red", PendingVerdict.UNREADABLE: "magenta", PendingVerdict.FITS: "green"}
_REASONS = {Chance.LATER: "no room now", Chance.UNANSWERED: "not evaluated", Chance.NEVER: "fits on no node"}
_VERDICTS = {
    Chance.FITS: PendingVerdict.FITS,
    Chance.LATER: PendingVerdict.LATER,
    Chance.UNANSWERED: PendingVerdict.UNKNOWN,
    Chance.NEVER: PendingVerdict.NEVER,
}


@dataclass(frozen=True, slots=True)
class PendingCause:
    """Why `pods` are pending, the oldest first, and what would help, both in words.

    `decision` is that of the oldest pod, None if no node was evaluated for it.
    """

    verdict: PendingVerdict
    reason: str
    remedy: str
    pods: tuple[PodInfo, ...]
    decision: PodDecision | None = None

    @property
    def oldest(self) -> PodInfo:
        """The pod that has been pending for longest."""
        return self.pods[0]

    @property
    def namespaces(self) -> Mapping[str, int]:
        """The number of pods by namespace, most first."""
        return dict(Counter(pod.namespace for pod in self.pods).most_common())

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        oldest = self.oldest
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "remedy": self.remedy or None,
            "pods": len(self.pods),
            "namespaces": self.namespaces,
            "oldest": {
                "namespace": oldest.namespace,
                "name": oldest.name,
                "created": datetime.fromtimestamp(oldest.created, UTC).isoformat()
                if oldest.created
                else None,
            },
        }


def causes(
    placed: PlacedPods,
    view: ClusterView,
    selection: PodSelection,
    *,
    progress: Callable[[str], object] = lambda _doing: None,
) -> tuple[PendingCause, ...]:
    """Return the causes for which the selected pods have no node, those of the most pods first."""
    alike: dict[object, list[PodInfo]] = defaultdict(list)
    for pod in placed.state.pods.values():
        waits = pod.phase is Phase.PENDING and not pod.node and not pod.leaving
        if waits and placed.selects(selection, pod):
            new = moving.newcomer(placed.stored[pod.uid], view, placed.state.reader)
            # All that its cause depends on; an invalid pod is alone.
            key = (pod.gates, pod.pinned, pod.scheduler, placed.state.quota(pod.namespace))
            alike[(new.question, new.constraints, *key) if new else pod.uid].append(pod)
    merged: dict[tuple[PendingVerdict, str], list[PendingCause]] = defaultdict(list)
    for number, pods in enumerate(alike.values()):
        progress(f"evaluating pending pods: {number:,} of {len(alike):,} kinds")
        cause = _cause(sorted(pods, key=_by_age), placed, view)
        merged[cause.verdict, cause.reason].append(cause)
    ranked: list[PendingCause] = []
    for same in merged.values():
        # The oldest pod speaks for all whose causes read the same.
        oldest = min(same, key=lambda cause: _by_age(cause.oldest))
        every = sorted((pod for cause in same for pod in cause.pods), key=_by_age)
        ranked.append(replace(oldest, pods=tuple(every)))
    ranked.sort(key=lambda cause: (-len(cause.pods), cause.reason))
    return tuple(_advised(ranked, placed, view, progress))


def _by_age(pod: PodInfo) -> tuple[int, str, str]:
    return pod.created, pod.namespace, pod.name


def _cause(pods: Sequence[PodInfo], placed: PlacedPods, view: ClusterView) -> PendingCause:
    pod, every = pods[0], tuple(pods)
    if gates := [gate for gate in pod.gates if gate != PLACEMENT_GATE]:
        return PendingCause(PendingVerdict.GATED, f"held by the scheduling gate {some(gates)}", "", every)
    try:
        decision = view.decide(placed.stored[pod.uid], name=pod.name, namespace=pod.namespace)
    except BadPod as error:
        first = str(error.mistakes[0]).partition("\n")[0]
        return PendingCause(PendingVerdict.UNREADABLE, f"cannot be read: {first}", "", every)
    explanation = explain(decision, view, placed.state, uid=pod.uid)
    if why := explanation.over_quota:
        return PendingCause(PendingVerdict.QUOTA, why, "", every)
    chance = min((answer.chance for answer in explanation.answers), key=PLACES.__getitem__, default=None)
    if chance is None:
        return PendingCause(PendingVerdict.UNKNOWN, "no node publishes a NUMA topology", "", every)
    if chance is Chance.FITS:
        return PendingCause(PendingVerdict.FITS, *_unplaced(pod), every)
    if chance is Chance.NEVER and (may := _elsewhere(explanation)):
        return PendingCause(PendingVerdict.UNKNOWN, may, "", every)
    if explanation.hopeless:
        reason, _, advice = why_never(decision, view).partition(". ")
        return PendingCause(_VERDICTS[chance], reason.rstrip("."), advice, every, decision)
    words = [words for _, each, words in counted_by_reason(explanation.answers) if each is chance]
    reason = f"{_REASONS[chance]}: nodes {', others '.join(words[:_MOST_REASONS])}"
    return PendingCause(_VERDICTS[chance], reason, "", every, decision)


def _elsewhere(explanation: Explanation) -> str:
    """Return on which nodes without known topology a pod may run; "" if on none."""
    if explanation.bare:
        return f"no node with a NUMA topology can run it; {nodes(explanation.bare)} without one may"
    if explanation.incomplete:
        return "no known node can run it; one that is not remembered may"
    if explanation.may_grow:
        return f"no known node can run it; another one of node pool {explanation.may_grow} may"
    return ""


def _unplaced(pod: PodInfo) -> tuple[str, str]:
    """Return why a pod that fits is pending, and what shows more."""
    if PLACEMENT_GATE in pod.gates:
        return (
            f"fits now, and is held by the scheduling gate {PLACEMENT_GATE}",
            "check that the controller runs with gates.enabled; its log says what it waits for",
        )
    scheduler = f"the scheduler {pod.scheduler}" if pod.scheduler else "its scheduler"
    return (
        f"fits now, and {scheduler} has not placed it",
        f"kubectl describe pod {pod.name} -n {pod.namespace} shows what its scheduler says",
    )


def _advised(
    ranked: Iterable[PendingCause],
    placed: PlacedPods,
    view: ClusterView,
    progress: Callable[[str], object],
) -> Iterator[PendingCause]:
    """Yield the causes, with whether moving pods would make room."""
    left = MOST_ADVISED if placed.complete else 0
    for cause in ranked:
        if cause.decision is None or cause.verdict is not PendingVerdict.LATER:
            yield cause
            continue
        pod, left = cause.oldest, left - 1
        if left < 0:
            command = f"kubectl numa defrag {pod.name} -n {pod.namespace}"
            yield replace(cause, remedy=f"{command} lists the pods that would have to move")
            continue
        progress(f"looking for room for {pod.namespace}/{pod.name}")
        priority = moving.priority_of(placed.stored[pod.uid], placed) or 0
        advice = moving.advise(cause.decision, view, placed, priority=priority, uid=pod.uid)
        best = advice.plans[0] if advice.plans else None
        if best and advice.remedy is Remedy.MOVES:
            words = f"one fits on {best.node} after moving {counted(len(best.moves), 'pod')}"
        elif best and advice.remedy is Remedy.WAITS:
            words = f"one fits on {best.node} after the deletion of {counted(len(best.leaving), 'pod')}"
        elif advice.remedy is Remedy.STUCK and advice.candidates:
            words = "moving pods does not help"
        else:
            words = moving.summary(advice)
        yield replace(cause, remedy=words)


def listing(found: Sequence[PendingCause], *, now: float) -> Listing:
    """Return the causes as a listing; `now` is in seconds since 1970."""

    def draw(writer: TextWriter) -> None:
        for cause in found:
            age = _age(cause.oldest, now)
            parts = [cause.reason, f"({_whose(cause)})", f"oldest {age}" if age else "", cause.remedy]
            label = f"{counted(len(cause.pods), 'pod'):>{_INDENT - 2}}  "
            style = _STYLES.get(cause.verdict, "yellow")
            writer.line(label, "  ".join(filter(None, parts)), indent=_INDENT, style=style)
        pods = counted(sum(len(cause.pods) for cause in found), "pod")
        summary = f"{pods} pending, {counted(len(found), 'cause')}"
        writer.line("", summary if found else "no pod without a node is pending", indent=0)

    return Listing(
        ("pods", "verdict", "namespaces", "oldest", "reason"),
        (
            ListedRow(
                f"pod/{cause.oldest.name}",
                (
                    *(len(cause.pods), cause.verdict, _whose(cause), _age(cause.oldest, now), cause.reason),
                    *(f"{cause.oldest.namespace}/{cause.oldest.name}", cause.remedy),
                ),
            )
            for cause in found
        ),
        lambda: [cause.to_json() for cause in found],
        wide_columns=("oldest pod", "remedy"),
        text=draw,
    )


def _whose(cause: PendingCause) -> str:
    return some(f"{namespace} {count:,}" for namespace, count in cause.namespaces.items())


def _age(pod: PodInfo, now: float) -> str:
    return ago(max(0.0, now - pod.created)) if pod.created else ""
