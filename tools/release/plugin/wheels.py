"""Downloads the wheels of a lock for the Python of another machine, and caches them."""

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker

from tools.release import toolbox
from tools.release.commands import run
from tools.release.kept import once
from tools.release.plugin.targets import Target

_ENTRY = re.compile(
    r"^(?P<pin>[a-z0-9][\w.-]*==[^\s;]+)(?: ; (?P<marker>[^\\\n]+))?(?P<hashes>(?: *\\\n +--hash=\S+)+)$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^#.*\n", re.MULTILINE)


class UnreadableLockError(Exception):
    """Raised if a lock contains a line that is not a pin with hashes; the message quotes the line."""


def downloaded(lock: Path, target: Target) -> Path:
    """Return a folder with the wheels of a lock for a target, verified by their hashes.

    pip evaluates markers for the Python that runs it, so it gets only the requirements that apply to the
    target. Raise `UnreadableLockError` if a line of the lock is not a pin with hashes.
    """
    wanted = "".join(pinned_for(target, lock.read_text()))
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    folder = toolbox.cache() / "wheels" / f"{target.name}-{digest}"
    return once(folder, lambda made: _download(wanted, target, made))


def pinned_for(target: Target, lock: str) -> Iterator[str]:
    """Yield the requirements of a lock that apply to a target, with their hashes and without markers."""
    text = _HEAD.sub("", lock)
    rest = _ENTRY.sub("", text).strip()
    if rest:
        raise UnreadableLockError(
            f"the lock contains a line that is not a pin with hashes: {rest.splitlines()[0]}"
        )
    for entry in _ENTRY.finditer(text):
        marker = entry["marker"]
        if marker is None or Marker(marker.strip()).evaluate(target.markers()):
            yield f"{entry['pin']} {entry['hashes'].lstrip()}\n"


def _download(requirements: str, target: Target, folder: Path) -> None:
    python = ".".join(map(str, target.python))
    with tempfile.TemporaryDirectory() as scratch:
        lock = Path(scratch) / "requirements.txt"
        lock.write_text(requirements)
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"),
            *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}"),
            *(f"--abi={abi}" for abi in (target.abi, "abi3", "none")),
            *(f"--platform={tag}" for tag in target.platform.tags),
            *("--requirement", lock, "--dest", folder),
        )
