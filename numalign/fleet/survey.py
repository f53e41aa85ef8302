"""
What a whole fleet says to one pod, and the sentence that a person reads when it is a no.

The decisive sentence comes first, about the nodes that come closest; then how many others refuse for
another reason; then what the owner can do. Event notes are cut at 1,024 characters and a client repeats the
text beside words of its own, so all of it stays below 900.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from numalign.rules.errors import cut
from numalign.rules.intent import POLICY, Intent, Policy
from numalign.rules.resources import render
from numalign.rules.verdict import Cause, Refusal, Refuser, Verdict

LONGEST = 900

# A refusal that speaks of alignment says more to an owner than one of a node that is out of the question.
TELLING = (
    Cause.ZONES_TOO_SMALL,
    Cause.WIDTHS_DIFFER,
    Cause.NOT_TOGETHER,
    Cause.SPREAD,
    Cause.NOT_EXCLUSIVE,
    Cause.NOT_WHOLE_CORES,
    Cause.NOTHING_TO_SHARE,
    Cause.OTHER_POLICY,
    Cause.NOT_ALLOCATED,
    Cause.NODE_TOO_SMALL,
    Cause.NOT_ALIGNED,
    Cause.NOT_ANSWERED,
)

OTHERS: Mapping[Cause, str] = MappingProxyType(
    {
        Cause.ZONES_TOO_SMALL: "have smaller zones",
        Cause.WIDTHS_DIFFER: "would need different numbers of zones",
        Cause.NOT_TOGETHER: "have no zones with all of it",
        Cause.SPREAD: "would spread it further",
        Cause.NOT_EXCLUSIVE: "cannot pin it either",
        Cause.OTHER_POLICY: "have another kubelet policy",
        Cause.NOT_WHOLE_CORES: "have too few whole cores for it",
        Cause.NOTHING_TO_SHARE: "would leave nothing to containers that share",
        Cause.NOT_ALLOCATED: "could not allocate it",
        Cause.NODE_TOO_SMALL: "have too little as a whole",
        Cause.NOT_ALIGNED: "do not align it",
        Cause.NOT_ANSWERED: "have too many zones for it to be worked out",
    }
)


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


Enough = Callable[[str, str, int], bool]
"""Whether some node could take the pod if a container (unnamed: the pod) asked for so much of a resource."""


def refusal_text(
    groups: Iterable[Group], intent: Intent, *, unknown: int, looser: Policy | None, enough: Enough
) -> str:
    """Why no node can take a pod; `looser` is a policy with which some node could."""
    ranked = sorted(groups, key=_closeness)
    closest = ranked[0]
    refusal = closest.verdict.refusal
    if refusal is None:
        raise ValueError("a pod that a node can take has no refusal")
    who = f"(class {closest.node_class}, {_nodes(closest.nodes)})"
    sentences = [
        f"no node can align {refusal.subject}: {_first(refusal, intent)} {who}",
        *_rest(ranked[1:], refusal),
        *([f"{_nodes(unknown)} without topology not counted"] if unknown else []),
        *_advice(refusal, looser, enough),
    ]
    # Names of containers are as long as their owners like.
    text = cut(". ".join(sentences) + ".", 4 * LONGEST)
    return textwrap.shorten(text, LONGEST, placeholder=" ...")


def _closeness(group: Group) -> tuple[int, Fraction, int, str]:
    """Most telling first, then the one that has most of what is asked, then the one with most nodes."""
    refusal = group.verdict.refusal
    if refusal is None:
        return (-1, Fraction(0), 0, group.node_class)
    shares = [Fraction(need.most, need.asked) for need in refusal.needs if need.most < need.asked]
    return (TELLING.index(refusal.cause), -min(shares, default=Fraction(0)), -group.nodes, group.node_class)


def _first(refusal: Refusal, intent: Intent) -> str:
    if refusal.refuser is Refuser.NODE:
        return f"it {refusal}"
    if refusal.refuser is Refuser.KUBELET and refusal.policy is not intent.policy:
        return f"the kubelet's own {refusal}"
    return str(refusal)


def _rest(groups: Iterable[Group], first: Refusal) -> Iterable[str]:
    """How many other nodes refuse, by cause; those that align nothing by their policy."""
    counts = Counter[str]()
    for group in groups:
        refusal = group.verdict.refusal
        if refusal:
            counts[_other(refusal, first)] += group.nodes
    for words, nodes in counts.items():
        yield f"{_nodes(nodes)} {words if nodes > 1 else _singular(words)}"


def _other(refusal: Refusal, first: Refusal) -> str:
    if refusal.cause is Cause.NOT_ALIGNED and refusal.detail.startswith("kubelet policy"):
        return 'have kubelet policy "none"'
    if refusal.cause is first.cause is Cause.ZONES_TOO_SMALL:
        return "have no more"
    return OTHERS[refusal.cause]


def _singular(words: str) -> str:
    verb, _, rest = words.partition(" ")
    return f"{_ONE.get(verb, verb)} {rest}"


_ONE = MappingProxyType({"have": "has", "do": "does"})


def _advice(refusal: Refusal, looser: Policy | None, enough: Enough) -> Iterator[str]:
    """What would make the pod fit: less of the one thing that is short, or a policy that promises less."""
    ways = [*_amounts(refusal, enough), *([f'use policy "{looser}"'] if looser else [])]
    if refusal.cause is Cause.NOT_EXCLUSIVE:
        ways.append("give every container equal requests and limits, and whole CPUs")
    if ways:
        text = ", or ".join(ways)
        yield text[0].upper() + text[1:]


def _amounts(refusal: Refusal, enough: Enough) -> Iterator[str]:
    short = [need for need in refusal.needs if need.most < need.asked]
    if refusal.cause is Cause.ZONES_TOO_SMALL and len(short) == 1 and short[0].most:
        name, most = short[0].resource, short[0].most
        if enough(refusal.container, name, most):
            yield f"ask for at most {render(name, most)} {name}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def enforcement_text(namespace: str, level: Policy, asked: Policy | None) -> str:
    """Why a namespace does not let a pod pass, and what its owner can do."""
    choices = " or ".join(policy for policy in Policy if policy.at_least(level))
    asks = asked or "nothing"
    return (
        f'namespace "{namespace}" enforces {level}: the pod asks for {asks}. '
        f"Set annotation {POLICY} to {choices}."
    )
