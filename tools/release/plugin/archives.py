"""An archive of the plugin for a platform: the program as a pex, its completion, and the license."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.release import tar_files, toolbox
from tools.release.commands import run
from tools.release.commit import EPOCH, Commit
from tools.release.plugin import wheels
from tools.release.plugin.targets import PYTHONS, Platform, Target
from tools.release.tar_files import RUNNABLE, Member

PROGRAM = "kubectl-numa"
COMPLETION = "kubectl_complete-numa"

_COMPLETING = f"""#!/bin/sh
# kubectl runs this program to complete the arguments of `kubectl numa`. Both programs must be on PATH.
PEX_SCRIPT={COMPLETION} exec {PROGRAM} "$@"
""".encode()


def make(
    commit: Commit,
    wheel: Path,
    platform: Platform,
    into: Path,
    *,
    pythons: Iterable[tuple[int, int]] = PYTHONS,
) -> Path:
    """Write the archive for a platform, and return its path; its program runs on these versions of Python."""
    archive = into / f"{PROGRAM}_{commit.version}_{platform.name}.tar.gz"
    targets = [Target(platform, python) for python in pythons]
    with tempfile.TemporaryDirectory() as folder:
        program = _pex(commit, wheel, targets, Path(folder))
        members = [
            Member(PROGRAM, program.read_bytes(), RUNNABLE),
            Member(COMPLETION, _COMPLETING, RUNNABLE),
            Member("LICENSE", (commit.tree / "LICENSE").read_bytes()),
        ]
    tar_files.write(archive, members, epoch=commit.epoch)
    return archive


def _pex(commit: Commit, wheel: Path, targets: Iterable[Target], folder: Path) -> Path:
    """Build a pex file, and return its path; at its first start it unpacks itself to the user's cache."""
    locks = commit.tree / "requirements"
    program = folder / PROGRAM
    needed, platforms = list[Path](), list[Path]()
    for target in targets:
        needed.append(wheels.downloaded(locks / "programs.txt", target))
        platforms.append(folder / f"{target.name}.json")
        platforms[-1].write_text(json.dumps(target.complete_platform()))
    run(
        *(toolbox.environment(locks / "release.txt"), "-m", "pex"),
        *(f"--pre-resolved-dists={each}" for each in (wheel, *needed)),
        *(f"--complete-platform={each}" for each in platforms),
        *("--console-script", PROGRAM, "--venv", "--python-shebang", "/usr/bin/env python3"),
        *("--output-file", program, f"numalign=={commit.version}"),
        folder=folder,
        environ={EPOCH: str(commit.epoch)},
    )
    return program
