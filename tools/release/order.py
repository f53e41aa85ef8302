"""What every part of a release needs to know, and how it runs other programs."""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Order:
    """A release: the tree, its version and wheel, the output folder, and the base URL of published files."""

    tree: Path
    version: str
    wheel: Path
    into: Path
    url: str = ""

    @property
    def locks(self) -> Path:
        return self.tree / "requirements"

    def pinned_wheel(self) -> str:
        return f"./{self.wheel.name} --hash=sha256:{sha256(self.wheel)}\n"


def run(*command: str | Path, folder: Path | None = None) -> None:
    """Run a program, whose output is shown. Raise `CalledProcessError` if it fails."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603


def output(*command: str | Path, folder: Path) -> str:
    return subprocess.check_output(command, cwd=folder, text=True)  # noqa: S603  callers name programs


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
