"""Finds or builds promtool, because only Prometheus knows how an alert is evaluated.

It is the one that PROMTOOL names, if set; otherwise one in a cache outside the tree, built with Go the first
time, which takes minutes.
"""

import os
from pathlib import Path

from tools.clusters.gotools import Version, Workshop
from tools.clusters.helm.build import there

MODULE = "github.com/prometheus/prometheus"

# Service discovery makes up half of its modules, and no rule needs it (plugins/ of Prometheus).
WITHOUT_DISCOVERY = ("-tags", "remove_all_sd")


WORKSHOP = Workshop(
    "promtool",
    Path(__file__).resolve().parent,
    variables=Version(MODULE, "github.com/prometheus/common/version.Version"),
)


async def find() -> Path:
    """Return the path of promtool; build it first if necessary."""
    if named := os.environ.get("PROMTOOL"):
        return there(Path(named), variable="PROMTOOL")
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "promtool")
    if not cached.exists():
        await WORKSHOP.build(
            f"{MODULE}/cmd/promtool",
            into=cached,
            begins=f"building promtool {WORKSHOP.required(MODULE)}: once, and it takes minutes",
            otherwise=f"no promtool here: install Go, or set PROMTOOL to the path of one (not at {cached})",
            flags=WITHOUT_DISCOVERY,
        )
    return cached
