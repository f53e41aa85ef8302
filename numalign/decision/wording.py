"""
Texts of refusals, in the scheduler's style: how many nodes have which reason.

One table has the words for each cause. All messages about refusals use it: the refusal of a pod counts all
nodes, `explain` describes one, and kube-scheduler prints a reason for each, which it counts by its text. So
every cause is described in two ways: with the amounts of single nodes, and identically for all of them.

Requests are written by tenants. So at most `MOST_NAMED` resources are named at once, names of containers are
cut, and a refusal has at most `LONGEST` characters: event notes are cut at 1,024 characters, and clients add
words of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby, islice
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from numalign.decision.pinning import listed
from numalign.decision.verdict import Cause, Need, Refusal, Shortage, Verdict
from numalign.kubelet.admission_errors import RejectionReason
from numalign.model.constraints import Unmet
from numalign.model.errors import cut
from numalign.model.intent import POLICY, RESOURCES, Intent, Policy
from numalign.model.pod import Role
from numalign.model.resources import readable_zone, render
from numalign.model.spelling import closest_resource

LONGEST = 900
"""The limit of characters in a refusal."""

LONGEST_REASON = 400
"""The limit of characters for one group of nodes: a scheduler repeats the text for thousands of them."""

MOST_NAMED = 16
"""The limit of resources that are named at once."""

NO_TOPOLOGY = "publish no NUMA topology"
"""The words for nodes of which only the Node object is known."""

_LONGEST_CLAUSE = 240
_LONGEST_RESOURCE = 64


_Text = str | Callable[[Refusal], str]
"""A text with the names of `_PARTS` in braces, or a function that chooses one."""


class _Words(NamedTuple):
    """The words for nodes, in the plural: with their own amounts, and identically for all of them."""

    own: _Text
    alike: _Text = ""


def _broken_core(otherwise: str) -> Callable[[Refusal], str]:
    broken = "allocate whole cores of {detail} CPUs, and {asked} is no multiple of that"
    return lambda refusal: broken if refusal.detail else otherwise


# The most helpful cause comes first: one about alignment says more to an owner than a node that cannot take
# the pod for other reasons.
_WORDS: Mapping[Cause, _Words] = MappingProxyType(
    {
        Cause.ZONES_TOO_SMALL: _Words("have {short}{after}", "have no {zone} with {asked}{free}"),
        Cause.NO_SUCH_ZONE: _Words(
            "have no NUMA zone for {names}: its device plugin reports one that does not exist"
        ),
        Cause.WIDTHS_DIFFER: _Words(
            "would use a different number of NUMA zones per resource ({widths})",
            "would use a different number of NUMA zones per resource for {asked}",
        ),
        Cause.NOT_TOGETHER: _Words("have no {zone} with {asked}{free}"),
        Cause.SPREAD: _Words(
            lambda refusal: (
                "would spread {asked} over more than {zones}"
                f"{', as it must reuse the CPUs of {reused} in {where}' if refusal.reused else ''}"
            ),
            "would spread {asked} over more than {zones}",
        ),
        Cause.NOT_ALONE: _Words(
            "would place it in {where} with other aligned pods, and the pod is exclusive",
            "would place it with other aligned pods, and the pod is exclusive",
        ),
        Cause.NOT_SHARED: _Words(
            "would place it in {where}, which an exclusive pod holds",
            "would place it in a NUMA zone that an exclusive pod holds",
        ),
        Cause.NOT_EXCLUSIVE: _Words("cannot pin {names} for the pod, because {detail}"),
        Cause.NOT_WHOLE_CORES: _Words(
            _broken_core("have {most}{free} in whole cores"),
            _broken_core("have less than {asked}{free} in whole cores"),
        ),
        Cause.NOTHING_TO_SHARE: _Words("would leave no {names} for the pod's other containers"),
        Cause.OTHER_POLICY: _Words('have Topology Manager policy "{detail}", not "{policy}"'),
        Cause.NOT_ALLOCATED: _Words("cannot allocate {asked}{now}"),
        Cause.NODE_TOO_SMALL: _Words(
            "have {most}{of_it}{overhead}", "have less than {asked}{in_total}{overhead}"
        ),
        Cause.NOT_ALIGNED: _Words(
            lambda refusal: (
                'have Topology Manager policy "{detail}"'
                if refusal.detail == Policy.NONE
                else "have a kubelet that does not align {names}"
            )
        ),
        Cause.NOT_ANSWERED: _Words("have too many NUMA zones to evaluate in time"),
    }
)
_CAUSE_ORDER = {cause: at for at, cause in enumerate(_WORDS)}

# The parts of a text; the second argument follows an amount: " free" for nodes as they are, nothing for empty
# ones.
_PARTS: Mapping[str, Callable[[Refusal, str], str]] = MappingProxyType(
    {
        "asked": lambda refusal, _: _amounts(refusal.needs) or "what it requests",
        "after": lambda refusal, _: " after the pod's other containers" if refusal.beside else "",
        "detail": lambda refusal, _: refusal.detail,
        "free": lambda _, free: free,
        # An empty node is too small only for now if it is degraded.
        "in_total": lambda _, free: " now" if free else " in total",
        "most": lambda refusal, _: _named(map(_at_most, refusal.needs[:MOST_NAMED])),
        "names": lambda refusal, _: _named(need.resource for need in refusal.needs) or "what it requests",
        "now": lambda _, free: " now" if free else "",
        "of_it": lambda refusal, free: (
            _PARTS["in_total"](refusal, free) if free or any(need.most for need in refusal.needs) else ""
        ),
        "overhead": lambda refusal, _: _overhead(refusal.needs),
        "policy": lambda refusal, _: refusal.policy,
        "reused": lambda refusal, _: f'{Role.INIT} "{cut(refusal.reused, _LONGEST_RESOURCE)}"',
        "short": lambda refusal, free: _named(
            [
                f"{_named(map(_at_most, needs))}{free} in"
                f" {_zones(zones) if any(need.most for need in needs) else 'any NUMA zone'}"
                for zones, needs in _by_zones(_short(refusal))
            ]
        ),
        "where": lambda refusal, _: _named(map(readable_zone, refusal.zones)),
        "widths": lambda refusal, _: ", ".join(
            f"{zones} for {_amounts(needs)}" for zones, needs in _by_zones(refusal.needs[:MOST_NAMED])
        ),
        "zone": lambda refusal, _: (
            "NUMA zone" if (widest := _widest(refusal)) == 1 else f"set of {widest} NUMA zones"
        ),
        "zones": lambda refusal, _: _zones(_widest(refusal)),
    }
)


class _Parts(dict[str, str]):
    def __init__(self, refusal: Refusal, free: str) -> None:
        self._refusal, self._free = refusal, free

    def __missing__(self, name: str) -> str:
        return _PARTS[name](self._refusal, self._free)


def _written(refusal: Refusal, free: str, *, alike: bool = False) -> str:
    words = _WORDS[refusal.cause]
    text = words.alike or words.own if alike else words.own
    return (text if isinstance(text, str) else text(refusal)).format_map(_Parts(refusal, free))


def _by_zones(needs: Iterable[Need]) -> Iterator[tuple[int, list[Need]]]:
    alike = groupby(sorted(needs, key=attrgetter("zones")), key=attrgetter("zones"))
    return ((zones, list(group)) for zones, group in alike)


# One node.


def sentence(verdict: Verdict) -> str:
    """Return why a node refuses, without a full stop; raise `ValueError` if it does not refuse."""
    return refused(_refusal(verdict), free=_free(verdict))


def refused(refusal: Refusal, *, free: str = " free") -> str:
    """Return the sentence for a refusal alone; `free` follows amounts, empty for an empty node."""
    by_kubelet = refusal.reason == RejectionReason.TOPOLOGY_AFFINITY
    policy = f' (Topology Manager policy "{refusal.policy}")' if by_kubelet else ""
    nothing = "; an init container that requests no whole number of CPUs has none to reuse"
    way_out = nothing if refusal.reused else ""
    return f"{_subject(refusal)}: the node {_singular(_written(refusal, free))}{policy}{way_out}"


def reason(verdict: Verdict) -> str:
    """Return why nodes refuse, in the plural, identical for all nodes with the same reason.

    Raise as `sentence` does. The text has the request and the kind of refusal, never the amounts of one
    node: forty nodes with forty texts would not help anybody.
    """
    refusal = _refusal(verdict)
    return cut(_written(refusal, _free(verdict), alike=True), LONGEST_REASON)


NOT_WHEN_EMPTY = "an empty node would reject the pod"


def not_when_empty(verdict: Verdict, remedies: Iterable[str]) -> tuple[str, ...]:
    """Return why an empty node refuses a pod that a node in use may take, and a text for each remedy."""
    # In one text, the remedies would be cut off: clients show few characters of a warning.
    refusal = _refusal(verdict)
    subject = f"for {_subject(refusal)} " if refusal.container else ""
    why = f"{NOT_WHEN_EMPTY}, because {subject}it {_singular(_written(refusal, ''))}"
    return why, *(f"an empty node would admit it if {remedy}" for remedy in remedies)


def of_node(verdict: Verdict) -> str:
    """Return why a node refuses, as words that follow its name; raise as `sentence` does."""
    return _singular(_written(_refusal(verdict), _free(verdict)))


def shortage(short: Shortage) -> str:
    """Return one line: the zone, the resource, the requested and the free amount."""
    request, free = render(short.resource, short.asked), render(short.resource, short.free)
    return f"{readable_zone(short.zone_name)}: {short.resource} {request} requested, {free} free"


# All nodes.


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of nodes, or shapes, with the same refusal when empty."""

    count: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Tally:
    """All nodes and shapes, counted by why they refuse a pod.

    `nodes` are those that the pod may use and that refuse it; others are `kept_away` by their labels and
    taints, and `unknown` ones publish no topology. `shapes` are those without a node at present.
    """

    nodes: tuple[Counted, ...] = ()
    kept_away: Mapping[Unmet, int] = field(default_factory=dict)
    unknown: int = 0
    shapes: tuple[Counted, ...] = ()

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(entry.count for entry in self.nodes) + sum(self.kept_away.values()) + self.unknown


Enough = Callable[[str, str, int], bool]
"""Whether some node could take the pod if a container (unnamed: the pod) requested so much of a resource."""


def refusal_text(tally: Tally, intent: Intent, *, looser: Policy | None, enough: Enough) -> str:
    """Return why no node can take a pod, and what its owner can do.

    `looser` is a policy with which some node could take it. Raise `ValueError` if nothing refuses. The
    numbers add up to all nodes; without nodes, to all shapes.
    """
    ranked = _ranked([*tally.nodes, *tally.shapes], intent)
    if not ranked:
        raise ValueError("nothing refuses the pod")
    first, subject = ranked[0].refusal, _subject(ranked[0].refusal)
    goal = f"run {subject}" if intent.policy is Policy.NONE else f"align {subject} as {intent.policy}"
    counts = f"0 of {nodes(tally.total)}"
    if shapes := sum(entry.count for entry in tally.shapes):
        counts += f", 0 of {shapes} node shape{'' if shapes == 1 else 's'} without nodes"
    head = f"no node can {goal} ({counts}): "
    counted = _clauses(tally.nodes, first, intent)
    counted += [(count, unmet.value) for unmet, count in sorted(tally.kept_away.items()) if count]
    counted += [(tally.unknown, NO_TOPOLOGY)] if tally.unknown else []
    advice = _advice(first, looser, enough)
    clauses = _fitting(
        counted or _clauses(tally.shapes, first, intent), LONGEST - len(head) - len(advice) - 1
    )
    return f"{head}{clauses}.{advice}"


def enforcement_text(namespace: str, level: Policy, asked: Policy | None) -> str:
    """Return the message for a pod whose policy is looser than what its namespace enforces."""
    choices = " or ".join(policy for policy in Policy if policy.at_least(level))
    requested = f"requests {asked}" if asked else "requests none"
    return (
        f'namespace "{namespace}" enforces NUMA alignment of at least {level}, and the pod {requested}. '
        f"Set annotation {POLICY} to {choices}."
    )


def left_out_text(namespace: str, level: Policy, names: Iterable[str]) -> str:
    """Return the message for a pod whose annotation leaves out what a kubelet could align."""
    return (
        f'namespace "{namespace}" enforces NUMA alignment of at least {level}, and {left_out(names)}. '
        "Add what is missing, or remove the annotation."
    )


def left_out(names: Iterable[str]) -> str:
    """Return which resources the annotation of a pod leaves out, as a clause."""
    return f"{RESOURCES} lacks {cut(_named(names), _LONGEST_CLAUSE)}"


def unlisted(resource: str, resources: Iterable[str]) -> str:
    """Return the message that no node lists a resource, with the closest known name, if any."""
    meant = _meant(closest_resource(resource, resources))
    return f'no node lists the resource "{cut(resource, _LONGEST_RESOURCE)}"{meant}'


def unrequested(resource: str, requested: Iterable[str], listed: Iterable[str]) -> str:
    """Return the message that no container requests a listed resource, with the name that may be meant."""
    meant = _meant(closest_resource(resource, requested) or closest_resource(resource, listed))
    return f'{RESOURCES}: no container requests "{cut(resource, _LONGEST_RESOURCE)}"{meant}'


def _meant(name: str | None) -> str:
    return f'; did you mean "{name}"?' if name else ""


def lacking(missing: Mapping[str, int]) -> str:
    """Return the amounts that a node had when healthy and lacks now, as words that follow its name."""
    amounts = _named(f"{render(name, amount)} {name}" for name, amount in missing.items())
    return f"lacks {amounts} that it had when healthy"


def short_as_a_whole(short: Mapping[str, int]) -> str:
    """Return what a node as a whole lacks for a pod, as words that follow its name."""
    amounts = _named(f"{render(name, amount)} {name}" for name, amount in short.items())
    return f"lacks {amounts} beside what its pods request"


def kept_away(unmet: Unmet, *, lasting: bool) -> str:
    """Return why a pod may not go to a node; a reason that is not `lasting` may be temporary."""
    passing = "" if lasting else " (this may be temporary)"
    return f"the node {_singular(unmet.value)}{passing}"


def ago(seconds: float) -> str:
    """Return a time in its largest whole unit: `2 days`, `3 h`, `5 min` or `less than a minute`."""
    for unit, one, many in _UNITS:
        count = int(seconds // unit)
        if count > 0:
            return f"{count} {one if count == 1 else many}"
    return "less than a minute"


_UNITS = ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"))


def nodes(count: int) -> str:
    """Return a count of nodes in words: `1 node`, `2 nodes`."""
    return "1 node" if count == 1 else f"{count} nodes"


def first_sentence(text: str) -> str:
    """Return the first sentence of a refusal, without its full stop."""
    return text.partition(". ")[0].rstrip(".")


def _ranked(counted: Iterable[Counted], intent: Intent) -> list[Counted]:
    """Return the entries with the same words merged, with the largest amounts; the most helpful first."""
    alike: dict[object, Counted] = {}
    for entry in counted:
        # The words, without the amounts that are short: entries with the same ones differ only in these.
        refusal, needs = entry.refusal, _short(entry.refusal)
        without = tuple(replace(need, most=0) for need in needs)
        own = _written(replace(refusal, needs=without or refusal.needs), "")
        key = own, bool(needs), refusal.subject, _policy(refusal, intent)
        if known := alike.get(key):
            pairs = zip(_short(known.refusal), needs, strict=True)
            most = tuple(replace(mine, most=max(mine.most, theirs.most)) for mine, theirs in pairs)
            merged = replace(known.refusal, needs=most or known.refusal.needs)
            alike[key] = Counted(known.count + entry.count, merged)
        else:
            alike[key] = entry
    return sorted(alike.values(), key=_closeness)


def _policy(refusal: Refusal, intent: Intent) -> str:
    """Return the kubelet's policy if it decides and differs from the pod's."""
    if refusal.policy is intent.policy or refusal.reason != RejectionReason.TOPOLOGY_AFFINITY:
        return ""
    return f' (Topology Manager policy "{refusal.policy}")'


def _closeness(counted: Counted) -> tuple[int, Fraction, int, str]:
    """Return the sort key: most helpful cause, then largest share of the request, then most nodes."""
    refusal = counted.refusal
    shares = [Fraction(need.most, need.asked) for need in _short(refusal)]
    share = min(shares, default=Fraction(0))
    return _CAUSE_ORDER[refusal.cause], -share, -counted.count, _written(refusal, "")


def _clauses(counted: Iterable[Counted], first: Refusal, intent: Intent) -> list[tuple[int, str]]:
    """Return the words for some nodes, with the container if it is not that of the first refusal."""
    clauses = []
    for entry in _ranked(counted, intent):
        refusal = entry.refusal
        other = refusal.container and refusal.container != first.container
        whom = f" for {_subject(refusal)}" if other else ""
        words = cut(_written(refusal, ""), _LONGEST_CLAUSE)
        clauses.append((entry.count, f"{words}{whom}{_policy(refusal, intent)}"))
    return clauses


def _fitting(clauses: list[tuple[int, str]], room: int) -> str:
    texts, remaining = list[str](), sum(count for count, _ in clauses)
    for count, words in clauses:
        text = f"{count} {_singular(words) if count == 1 else words}"
        others = f"{remaining} for other reasons"
        if len(", ".join([*texts, text, others])) > room:
            return ", ".join([*texts, others])
        texts.append(text)
        remaining -= count
    return ", ".join(texts)


def _advice(refusal: Refusal, looser: Policy | None, enough: Enough) -> str:
    ways, short = list[str](), _short(refusal)
    if refusal.cause is Cause.ZONES_TOO_SMALL and len(short) == 1 and short[0].most:
        need = short[0]
        if enough(refusal.container, need.resource, need.most):
            ways.append(f"request at most {cut(_amount(need, need.most), 120)}")
    if looser:
        ways.append(f'set annotation {POLICY} to "{looser}"')
    if refusal.cause is Cause.NOT_EXCLUSIVE:
        ways.append("set equal requests and limits and whole CPUs in every container")
    text = ", or ".join(ways)
    return f" {text[0].upper()}{text[1:]}." if ways else ""


# Words.


def _refusal(verdict: Verdict) -> Refusal:
    if verdict.refusal is None:
        raise ValueError("the pod is admitted: there is no refusal to explain")
    return verdict.refusal


def _free(verdict: Verdict) -> str:
    return "" if verdict.permanent else " free"


def _subject(refusal: Refusal) -> str:
    return cut(refusal.subject, 100)


def _short(refusal: Refusal) -> list[Need]:
    return [*islice((need for need in refusal.needs if need.most < need.asked), MOST_NAMED)]


def _widest(refusal: Refusal) -> int:
    return max((need.zones for need in refusal.needs), default=1)


def _zones(count: int) -> str:
    return "one NUMA zone" if count == 1 else f"{count} NUMA zones"


def _amounts(needs: Iterable[Need]) -> str:
    return _named(_amount(need, need.asked) for need in needs)


def _overhead(needs: Iterable[Need]) -> str:
    added = ", ".join(
        f"{_amount(need, need.asked - need.overhead)} and {render(need.resource, need.overhead)} overhead"
        for need in islice((need for need in needs if need.overhead), MOST_NAMED)
    )
    return f", and the pod requests {added} of its RuntimeClass" if added else ""


def _at_most(need: Need) -> str:
    return f"at most {_amount(need, need.most)}" if need.most else f"no {need.resource}"


def _amount(need: Need, amount: int) -> str:
    return f"{render(need.resource, amount)} {need.resource}"


def _named(words: Iterable[str]) -> str:
    return listed(words, most=MOST_NAMED)


def _singular(words: str) -> str:
    verb, _, others = words.partition(" ")
    return f"{_ONE.get(verb, verb)} {others}"


_ONE = MappingProxyType(
    {"have": "has", "allocate": "allocates", "do": "does", "publish": "publishes", "were": "was"}
)
