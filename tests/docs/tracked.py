"""The files of the repository, as git has them."""

import subprocess
from pathlib import Path

from tests.docs.blocks import ROOT


def tracked(pattern: str = "*") -> list[Path]:
    """Every tracked file that matches a pattern of git, in the order of their paths."""
    listed = subprocess.run(  # noqa: S603  no shell, and patterns of our own
        ["git", "ls-files", "-z", "--", pattern],  # noqa: S607  the developer's own git
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = [ROOT / path for path in listed.stdout.split("\0") if path]
    # Deleted and not yet committed.
    return [path for path in paths if path.is_file()]
