"""
Whether any state of a node could admit a pod.

The kubelet takes the lowest zones that do, so an empty node can reject what the same node admits while other
pods use a part of it: an init container lands in another zone, and no longer anchors the rest. So what the
empty node answers shows nothing about other states. What every admission needs is checked instead, on the
empty node, which has the most of everything: each container by itself on whatever zones are best for it, the
pod as a whole, and one zone for each container that has to be in one. None of this becomes true when
something is in use. The reverse is not guaranteed: a pod that passes may still fit in no state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from numalign.decision.own_zones import fewest_zones
from numalign.decision.verdict import Cause, Refusal, Refuser
from numalign.kubelet import admit as kubelet
from numalign.kubelet import work_limit
from numalign.model.demand import Demand, Step
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.options import CpuOption
from numalign.model.pod import Role
from numalign.model.resources import CPU
from numalign.model.steps import Steps

MOST_REQUESTS = 64
"""The limit of requests; for more there is no answer."""

MOST_TRIED = 4096
"""The limit of tries; with more there is no answer."""

_IN_EVERY_STATE = frozenset(
    {Cause.NOT_EXCLUSIVE, Cause.NOT_ALIGNED, Cause.OTHER_POLICY, Cause.NOTHING_TO_SHARE}
)
"""Causes that follow from the pod and the kubelet's configuration alone."""


def feasible(node: Node, demand: Demand, intent: Intent, refusal: Refusal) -> Steps[bool]:
    """Return whether a state of a node could admit a pod that the healthy, empty `node` refuses."""
    # The node would have to split a core, or has too few, however many are free.
    short = refusal.detail or any(need.most < need.asked for need in refusal.needs)
    breaks_cores = refusal.cause is Cause.NOT_WHOLE_CORES and short
    if refusal.refuser is Refuser.NODE or refusal.cause in _IN_EVERY_STATE or breaks_cores:
        return False
    # Running containers hold their resources at the same time.
    for step in (*demand.steps, demand.whole):
        if not _has(node, step, len(node.zones), step.requests):
            return False
        yield
    strict = node.policy.at_least(Policy.RESTRICTED)
    if strict and not (yield from kubelet.preferring(node, demand)):
        return False
    by_pod = (intent.scope or node.scope) is Scope.POD
    for unit in ((demand.whole,) if by_pod else demand.steps) if intent.binding else ():
        names = _concerned(node, unit, intent)
        if not _has(node, unit, fewest_zones(node, unit, intent.policy, names) or 1, names):
            return False
        yield
    # Running containers that have to be in one zone each need room beside each other.
    requests = list[Mapping[str, int]]()
    for step in demand.steps:
        if step.role is not Role.INIT:
            requests.append({name: step.requests[name] for name in _in_one_zone(node, step, intent)})
            yield
    return fit_apart(kubelet.obtainable(node), filter(None, requests)) is not False


def _has(node: Node, step: Step, zones: int, names: Iterable[str]) -> bool:
    # With too many zones to visit their sets, one may have it.
    if len(node.zones) > work_limit.MOST_ZONES:
        return True
    amounts = {name: step.requests[name] for name in names if kubelet.serves(node, name)}
    fewest = kubelet.fewest_zones_with(node, amounts)
    return fewest is not None and fewest <= zones


def _concerned(node: Node, step: Step, intent: Intent) -> list[str]:
    return [name for name in step.requests if intent.concerns(name) and node.aligns(name)]


def _in_one_zone(node: Node, step: Step, intent: Intent) -> frozenset[str]:
    """Return the resources of a container that have to come from one zone, in any state."""
    names = frozenset[str]()
    if intent.binding and (intent.scope or node.scope) is Scope.CONTAINER:
        concerned = _concerned(node, step, intent)
        if (fewest_zones(node, step, intent.policy, concerned) or 1) == 1:
            names = names.union(concerned)
    if node.policy.at_least(Policy.RESTRICTED) and node.scope is Scope.CONTAINER:
        widths = kubelet.min_widths(node, step)
        if CpuOption.ALIGN_BY_SOCKET in node.options.cpu:
            # The CPUs may come from any zone of the socket.
            widths.pop(CPU, None)
        if node.policy is Policy.SINGLE_NUMA_NODE or max(widths.values(), default=1) == 1:
            names = names.union(name for name in widths if name in step.requests)
    return frozenset(name for name in names if kubelet.in_single_zones(node, name))


def fit_apart(zones: Iterable[Mapping[str, int]], requests: Iterable[Mapping[str, int]]) -> bool | None:
    """Return whether each request fits into one zone beside the others; None if that takes too many tries."""
    requests = [*requests]
    if len(requests) > MOST_REQUESTS:
        return None
    # The largest first, so that an impossible division is detected early.
    asked = sorted(requests, key=lambda amounts: sorted(amounts.values()), reverse=True)
    try:
        return _fit([Counter(zone) for zone in zones], asked, iter(range(MOST_TRIED)))
    except StopIteration:
        return None


def _fit(left: Sequence[Counter[str]], asked: Sequence[Mapping[str, int]], tries: Iterator[int]) -> bool:
    if not asked:
        return True
    first, *others = asked
    for zone in left:
        next(tries)
        if all(zone[name] >= amount for name, amount in first.items()):
            zone.subtract(first)
            fits = _fit(left, others, tries)
            zone.update(first)
            if fits:
                return True
    return False
