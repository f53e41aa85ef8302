"""How many zones a policy allows for the resources of a container or pod."""

from collections.abc import Iterable

from numalign.kubelet.admit import min_widths
from numalign.model.demand import Step
from numalign.model.intent import Policy
from numalign.model.node import Node


def fewest_zones(node: Node, step: Step, policy: Policy, names: Iterable[str]) -> int | None:
    """Return the number of zones that a policy allows for these resources of a step; None if not known.

    For all policies but `single-numa-node` that is the fewest that could hold one of them by hardware.
    """
    if policy is Policy.SINGLE_NUMA_NODE:
        return 1
    widths = min_widths(node, step)
    return min((widths[name] for name in names if name in widths), default=None)
