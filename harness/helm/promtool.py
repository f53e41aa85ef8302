"""Gets promtool, because only Prometheus knows what an alert comes to.

`python -m harness.helm.promtool` prints its path. It is the one named by PROMTOOL if that is set, else
one in a cache outside the tree, else one that is built now with Go: minutes, once. Progress goes to standard
error. Exit code 69 says that none can be had on this machine, 1 that getting it went wrong.
"""

import os
import sys
from pathlib import Path

from harness.gotools import Version, Workshop, run
from harness.helm.build import there

MODULE = "github.com/prometheus/prometheus"

# Finding targets in clouds takes half of its modules, and no rule needs it (plugins/ of Prometheus).
WITHOUT_DISCOVERY = ("-tags", "remove_all_sd")


WORKSHOP = Workshop(
    "promtool",
    Path(__file__).resolve().parent,
    "go.promtool.mod",
    Version(MODULE, "github.com/prometheus/common/version.Version"),
)


async def find() -> list[Path]:
    """Where promtool is, built first if it must be."""
    if named := os.environ.get("PROMTOOL"):
        return [there(Path(named), variable="PROMTOOL")]
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "promtool")
    return [cached if cached.exists() else await build(cached)]


async def build(cached: Path) -> Path:
    """Builds it into the cache."""
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
