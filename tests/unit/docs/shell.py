"""
The shell of a reader who follows a page from top to bottom: one folder, one block after another.

The folder looks like the root of the repository, so that paths of the pages are right, and takes what a
reader writes. What a block exports, assigns or changes into holds for the blocks after it.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.unit.docs.blocks import ROOT, Block, missing

LOOK_SECONDS = 0.05
BLOCK_SECONDS = 300

# Every assignment is exported, so that the next block has it too.
BEGIN = """\
set -a
if [ -e {session} ]; then . {session}; fi
trap '{{ export -p; printf "cd %q\\n" "$PWD"; }} > {session}' EXIT
set -e
"""

# Where there is no kubectl, what it would do with a plugin.
PLUGIN_ONLY = """\
#!/bin/sh
[ "$1" = numa ] || { echo "kubectl is not installed" >&2; exit 127; }
shift
exec kubectl-numa "$@"
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a block ended, and all that it printed. A block that goes on running has exit code 0."""

    exit_code: int
    printed: str


@dataclass(slots=True)
class Shell:
    """Runs blocks in `folder`. `seconds` is how long they took so far."""

    folder: Path
    environment: dict[str, str]
    seconds: float = 0
    _started: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def run(self, block: Block) -> Outcome:
        """The block's commands, until one fails.

        A block that goes on running does so until the next one of its kind, or `end`.
        """
        if block.until:
            await self.end()
        began = monotonic()
        log = self.folder / ".printed"
        session = self.folder / ".session"
        with log.open("wb") as printed:
            process = await asyncio.create_subprocess_exec(
                *("bash", "-c", BEGIN.format(session=session) + block.commands),
                cwd=self.folder,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        code = await asyncio.wait_for(_ended(process, log, until=block.until), BLOCK_SECONDS)
        self.seconds += monotonic() - began
        return Outcome(code, log.read_text())

    def add_program(self, program: Path) -> None:
        """Have a program that is not installed be called by its name."""
        self.environment["PATH"] = os.pathsep.join([str(program.parent), self.environment["PATH"]])

    async def end(self) -> None:
        for process in reversed(self._started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._started:
            await process.wait()
        self._started.clear()


async def _ended(process: asyncio.subprocess.Process, log: Path, *, until: str) -> int:
    if not until:
        return await process.wait()
    while process.returncode is None:
        if until in await asyncio.to_thread(log.read_text):
            return 0
        await asyncio.sleep(LOOK_SECONDS)
    return process.returncode


@asynccontextmanager
async def shell(folder: Path, **variables: str) -> AsyncIterator[Shell]:
    """A reader's shell in a new folder; `variables` add to the environment."""
    place = folder / "repository"
    _link(ROOT, place)
    # For make, the environment of the tests is what a reader has just set up.
    _link(Path(sys.prefix), place / ".venv")
    for stamp in (".programs", ".tests", ".ready"):
        (place / ".venv" / stamp).touch()
    reader = Shell(place, _environment(folder) | variables)
    try:
        yield reader
    finally:
        await reader.end()


def _link(folder: Path, place: Path) -> None:
    """Make a folder with links to what is in another, but for hidden files and folders."""
    place.mkdir()
    for entry in folder.iterdir():
        if not entry.name.startswith("."):
            (place / entry.name).symlink_to(entry)


def _environment(folder: Path) -> dict[str, str]:
    programs = [str(Path(sys.executable).parent)]
    if not shutil.which("kubectl"):
        stand_in = folder / "bin" / "kubectl"
        stand_in.parent.mkdir()
        stand_in.write_text(PLUGIN_ONLY)
        stand_in.chmod(0o755)
        programs.append(str(stand_in.parent))
    helm = {f"HELM_{kind.upper()}_HOME": str(folder / "helm" / kind) for kind in ("cache", "config", "data")}
    path = os.pathsep.join([*programs, os.environ["PATH"]])
    own = {"PATH": path, "KUBECONFIG": str(folder / "no-kubeconfig"), "COLUMNS": "80", "NO_COLOR": "1"}
    return dict(os.environ) | own | helm


async def follow(reader: Shell, block: Block, page: str) -> None:
    """Run a block, and fail where the page is wrong about it."""
    outcome = await reader.run(block)
    where = f"{page}:{block.line}:\n{block.commands}"
    ended = f"ended with {outcome.exit_code}, not {block.exit_code}, and printed:\n{outcome.printed}"
    assert outcome.exit_code == block.exit_code, f"{where}{ended}"
    absent = "\n\n".join(missing(block.shown, outcome.printed))
    assert not absent, f"{where}did not print:\n{absent}\n\nbut:\n{outcome.printed}"
