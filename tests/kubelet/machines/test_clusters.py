"""What a run that was killed leaves behind is removed by the next."""

import os
from pathlib import Path

from tools.clusters.kubelets.clusters import PREFIX, remove_leftovers

ENDED = 2**22 + 1
"""A process that there cannot be: Linux counts no further than to one less."""


def test_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    for name in (f"{PREFIX}{ENDED}-abc", f"{PREFIX}{os.getpid()}-abc", f"{PREFIX}mine-abc", "others"):
        (tmp_path / name / "inner").mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"{PREFIX}{os.getpid()}-abc", f"{PREFIX}mine-abc", "others"]
    )
