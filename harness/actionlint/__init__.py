"""Gets actionlint, which judges workflows: the one that ACTIONLINT names, or one built with Go."""

import os
from dataclasses import dataclass
from pathlib import Path

from harness.gotools import Workshop
from harness.helm.build import there

MODULE = "github.com/rhysd/actionlint"


@dataclass(frozen=True, slots=True)
class ActionlintWorkshop(Workshop):
    """Tells actionlint the version of its module."""

    def _linking(self) -> str:
        return f"-s -w -X {MODULE}.version={self.required(MODULE)}"


WORKSHOP = ActionlintWorkshop("actionlint", Path(__file__).resolve().parent)


async def find() -> Path:
    """Where actionlint is, built first if it must be: seconds, once."""
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
