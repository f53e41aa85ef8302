"""The answers of all shapes and nodes of a cluster to one pod."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from numalign.decision import wording
from numalign.decision.verdict import Verdict
from numalign.decision.wording import Counted, Enough, Tally
from numalign.model.constraints import Unmet
from numalign.model.intent import Intent, Policy
from numalign.shapes import KnownShape, Pool


@dataclass(frozen=True, slots=True)
class Group:
    """The answers of the nodes of one shape to a pod.

    `nodes` counts present nodes that the pod may use as long as their labels and lasting taints stay;
    `kept_away` counts the other present ones by reason. The verdict is that of the shape: healthy and empty,
    whether or not the pod may use it.
    """

    known: KnownShape
    nodes: int
    verdict: Verdict
    kept_away: Mapping[Unmet, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Survey:
    """What could ever hold a pod.

    `feasible` and `infeasible` are sorted class names, over all shapes wherever the pod may go; a class is
    infeasible only if no shape of that class could take the pod, and no node with that label has a shape that
    could.

    `able` counts present nodes, with shapes that could take the pod, that it may use as long as their labels
    and lasting taints stay. Of these, `unanswered` would take too long to evaluate, so they may be able. If
    all of them could take it only while other pods use a part of them, `not_when_empty` says why an empty one
    would refuse it, and what would help.
    Without any, `fallback` is a shape that could take it and has, had or may have nodes that it may use,
    such as a new one in another place (`numalign.shapes.new_nodes`).
    `unmatched` is set if the pod may use no node that is known in any way, by its selector and tolerations.

    `known` counts all nodes, `unknown` those that publish no topology; `bare` of the latter those that are
    large enough, as far as known, and that the pod may use or, without any, that are like one that it may
    use. Of the requested resources, `unlisted` are those that no shape lists, nor any node without topology.
    If the answer is `incomplete`, shapes that are not kept may be able to take the pod. Without any node or
    shape that could, `grown_by` is a pool that may get nodes of any hardware which the pod may use
    (`numalign.shapes.growable_pools`); `bare_grown_by` is one of which only nodes without topology are known.
    """

    feasible: tuple[str, ...]
    infeasible: tuple[str, ...]
    able: int
    known: int
    unknown: int
    unanswered: int = 0
    not_when_empty: tuple[str, ...] = ()
    fallback: KnownShape | None = None
    unmatched: bool = False
    bare: int = 0
    unlisted: tuple[str, ...] = ()
    incomplete: bool = False
    grown_by: Pool | None = None
    bare_grown_by: Pool | None = None

    @property
    def may_grow(self) -> Pool | None:
        """A pool that may get nodes for the pod, whether or not nodes without topology count."""
        return self.grown_by or self.bare_grown_by


def refusal_text(
    groups: Iterable[Group], intent: Intent, *, unknown: int, looser: Policy | None, enough: Enough
) -> str:
    """Return why no node can take a pod; `looser` is a policy with which some node could.

    Empty if no node that the pod may use refuses it, nor a shape without nodes.
    """
    every = tuple(groups)
    kept_away = Counter[Unmet]()
    for group in every:
        kept_away.update(group.kept_away)
    tally = Tally(
        nodes=tuple(_counted(every, lambda group: group.nodes)),
        kept_away=kept_away,
        unknown=unknown,
        shapes=tuple(_counted(every, lambda group: int(not group.nodes and not group.kept_away))),
    )
    if not (tally.nodes or tally.shapes):
        return ""
    return wording.refusal_text(tally, intent, looser=looser, enough=enough)


def _counted(groups: Iterable[Group], count: Callable[[Group], int]) -> Iterator[Counted]:
    for group in groups:
        refusal, number = group.verdict.refusal, count(group)
        if refusal and number:
            yield Counted(number, refusal)
