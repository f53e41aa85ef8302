"""Finds or builds promtool, because only Prometheus knows how an alert is evaluated.

It is the one that PROMTOOL names, if set; otherwise one in a cache outside the tree, built with Go the first
time, which takes minutes.
"""

from pathlib import Path

from tools.clusters.gotools import Version, Workshop

MODULE = "github.com/prometheus/prometheus"
WORKSHOP = Workshop(
    "promtool",
    Path(__file__).resolve().parent,
    module=MODULE,
    variables=Version(MODULE, "github.com/prometheus/common/version.Version"),
)

# Service discovery makes up half of its modules, and no rule needs it (plugins/ of Prometheus).
WITHOUT_DISCOVERY = ("-tags", "remove_all_sd")


async def find() -> Path:
    """Return the path of promtool, built first if necessary."""
    return await WORKSHOP.program(f"{MODULE}/cmd/promtool", variable="PROMTOOL", flags=WITHOUT_DISCOVERY)
