"""The files of a release, with their sizes and digests."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class UnavailableError(Exception):
    """Raised if a part cannot be made on this machine; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file of a release; `size` in bytes, `sha256` in hexadecimal digits."""

    path: Path
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def artefact(path: Path) -> Artefact:
    """Return a file with its size and digest."""
    with path.open("rb") as file:
        return Artefact(path, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def checksums(artefacts: Iterable[Artefact]) -> str:
    """Return the lines that `sha256sum --check` reads, ordered by name."""
    ordered = sorted(artefacts, key=lambda each: each.name)
    return "".join(f"{each.sha256}  {each.name}\n" for each in ordered)
