"""What a whole fleet says to one pod."""

from collections.abc import Iterable
from dataclasses import dataclass

from numalign.rules import wording
from numalign.rules.intent import Intent, Policy
from numalign.rules.verdict import Verdict
from numalign.rules.wording import Counted, Enough, Tally


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one class that say the same to a pod."""

    node_class: str
    nodes: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Survey:
    """Which classes could ever hold a pod.

    `feasible` and `infeasible` are sorted class names; a class is infeasible only if every node that it
    names is. `able` and `known` count nodes; `unknown` those that publish no topology. Of the `able` ones so
    many are `unanswered`: what becomes of the pod there takes too long to work out, so they may be.
    """

    feasible: tuple[str, ...]
    infeasible: tuple[str, ...]
    able: int
    known: int
    unknown: int
    unanswered: int = 0


def refusal_text(
    groups: Iterable[Group], intent: Intent, *, unknown: int, looser: Policy | None, enough: Enough
) -> str:
    """Why no node can take a pod; `looser` is a policy with which some node could.

    Raises `ValueError` where no group refuses.
    """
    refused = ((each.nodes, each.verdict.refusal) for each in groups)
    counted = tuple(Counted(count, refusal) for count, refusal in refused if refusal)
    return wording.refusal_text(Tally(counted, unknown=unknown), intent, looser=looser, enough=enough)
