"""Finds actionlint, which checks workflows: the program that ACTIONLINT names, or one built with Go."""

from pathlib import Path

from tools.clusters.gotools import Version, Workshop

MODULE = "github.com/rhysd/actionlint"
WORKSHOP = Workshop(
    "actionlint",
    Path(__file__).resolve().parent,
    module=MODULE,
    variables=Version(MODULE, f"{MODULE}.version"),
)


async def find() -> Path:
    """Return the path of actionlint, built first if necessary."""
    return await WORKSHOP.program(f"{MODULE}/cmd/actionlint", variable="ACTIONLINT")
