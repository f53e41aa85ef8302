"""All targets of benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Named:
    """A case with targets, in milliseconds."""

    zones: int
    policy: str
    needed: int
    verdicts: float
    scores: float
    title: str


NAMED = (
    Named(2, "single-numa-node", 1, 0.8, 3, "2 zones, single-numa-node"),
    Named(8, "restricted", 1, 2.3, 4, "8 zones, restricted, one is enough"),
    Named(8, "restricted", 4, 8, 12, "8 zones, restricted, four needed"),
)
WARM_MS = 0.3
"""Verdicts after 1 % of the nodes changed."""

CHURN_MS: Mapping[str, float] = MappingProxyType({"p50": 2, "p99": 8})
"""Round trips of reviews while topologies change."""

STALENESS_MS: Mapping[str, float] = MappingProxyType({"p99": 1000})
CORES = 0.6
"""Processors that a webhook uses meanwhile."""

LAG_MS = 2
"""The longest time for which anything blocks an event loop."""

BY_RULES = 1.0
"""Percent of all pairs of a pod and a node that columns may have no answer for."""

MAKES_RATIO = 2
"""How many times as long as with one make anything may take with many."""

NODE_KIB = 6
HANDLER_MS: Mapping[str, float] = MappingProxyType({"p50": 1, "p99": 5})
"""Time to handle a review; each is a bound of the histogram, so no interpolation decides if it is met."""

FIRST_REVIEW_MS: Mapping[str, float] = MappingProxyType({"p99": 25})
"""Round trips of reviews that are the first of their template."""

KEPT_UP = 0.99
"""The least share of the requested rate; a run below it was not sent at that rate."""

WEBHOOK_MIB = 256
EXTENDER_MS: Mapping[tuple[str, int, str], float] = MappingProxyType(
    {("first", 500, "p50"): 8, ("first", 500, "p99"): 15}
)
"""Round trips, by whether a template is new, by number of names and by quantile."""

EXTENDER_HANDLER_MS: Mapping[tuple[str, int, str], float] = MappingProxyType(
    {("again", 500, "p50"): 0.7, ("again", 500, "p99"): 3, ("again", 5000, "p99"): 10}
)
"""The same for the handler alone."""

BINDS = 0.9
"""The least ratio of pods bound per second to those with an extender that answers everything at once."""

AIMED_AT = ("numalign-rank", "numalign-bind", "numalign-rank-apart", "numalign-bind-apart")
READY_S = 20
START_MIB = 256

AGENT_MIB: Mapping[str, float] = MappingProxyType({"rest": 40})
AGENT_PERCENT: Mapping[str, float] = MappingProxyType({"rest": 0.5, "busy": 10})
"""Percent of one processor, at rest and with 110 pods of which ten change every second."""

AGENT_LATE_MS: Mapping[str, float] = MappingProxyType({"p50": 300, "p99": 1000})
"""Delays from the kubelet's checkpoint to a watch of topologies."""

COMMANDS_S: Mapping[str, float] = MappingProxyType({"--version": 0.3, "explain": 2})
"""Processor seconds from start to end with 5,000 nodes, by command of `kubectl numa`."""
