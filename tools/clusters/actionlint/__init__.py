"""Finds actionlint, which checks workflows: the program that ACTIONLINT names, or one built with Go."""

import os
from pathlib import Path

from tools.clusters.gotools import Version, Workshop
from tools.clusters.helm.build import there

MODULE = "github.com/rhysd/actionlint"


HERE = Path(__file__).resolve().parent
WORKSHOP = Workshop("actionlint", HERE, variables=Version(MODULE, f"{MODULE}.version"))


async def find() -> Path:
    """Return the path of actionlint; build it first if necessary, in seconds."""
    if named := os.environ.get("ACTIONLINT"):
        return there(Path(named), variable="ACTIONLINT")
    cached = WORKSHOP.cache(WORKSHOP.required(MODULE), "actionlint")
    if not cached.exists():
        await WORKSHOP.build(
            f"{MODULE}/cmd/actionlint",
            into=cached,
            begins=f"building actionlint {WORKSHOP.required(MODULE)}",
            otherwise="no actionlint: install Go to build one, or set ACTIONLINT to the path of one",
        )
    return cached
