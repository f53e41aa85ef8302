"""Finds or builds promtool, because only Prometheus knows how an alert is evaluated.

`python -m harness.helm.promtool` prints its path. It is the one that PROMTOOL names, if set; otherwise one in
a cache outside the tree. If the cache has none, it is built with Go, which takes minutes, once. Progress goes
to standard error. Exit code 69 means that promtool is not available on this machine, 1 that PROMTOOL is wrong
or the build failed.
"""

import os
import sys
from pathlib import Path

from harness.gotools import Version, Workshop, run
from harness.helm.build import there

MODULE = "github.com/prometheus/prometheus"

# Service discovery makes up half of its modules, and no rule needs it (plugins/ of Prometheus).
WITHOUT_DISCOVERY = ("-tags", "remove_all_sd")


WORKSHOP = Workshop(
    "promtool",
    Path(__file__).resolve().parent,
    "go.promtool.mod",
    Version(MODULE, "github.com/prometheus/common/version.Version"),
)


async def find() -> list[Path]:
    """Return the path of promtool; build it first if necessary."""
    if named := os.environ.get("PROMTOOL"):
        return [there(Path(named), variable="PROMTOOL")]
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "promtool")
    return [cached if cached.exists() else await build(cached)]


async def build(cached: Path) -> Path:
    """Build promtool into the cache, and return its path."""
    await WORKSHOP.build(
        f"{MODULE}/cmd/promtool",
        into=cached,
        begins=f"building promtool {WORKSHOP.required(MODULE)}: once, and it takes minutes",
        otherwise=f"no promtool here: install Go, or set PROMTOOL to the path of one (not at {cached})",
        flags=WITHOUT_DISCOVERY,
    )
    return cached


if __name__ == "__main__":
    sys.exit(run(WORKSHOP, find()))
