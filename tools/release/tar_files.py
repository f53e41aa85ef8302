"""Reproducible archives: the same files give the same bytes."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

READABLE, RUNNABLE = 0o644, 0o755


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive."""

    name: str
    content: bytes
    mode: int = READABLE


def write(archive: Path, members: Iterable[Member], *, epoch: int) -> None:
    """Write a .tar.gz of files in the given order, all with the same owner and time."""
    with (
        archive.open("wb") as file,
        # The gzip header contains neither a name nor a time.
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as files,
    ):
        for member in members:
            head = tarfile.TarInfo(member.name)
            head.size, head.mode, head.mtime = len(member.content), member.mode, epoch
            files.addfile(head, io.BytesIO(member.content))


def unpack(files: tarfile.TarFile, into: Path, members: Iterable[tarfile.TarInfo] | None = None) -> None:
    """Extract a trusted archive, or these members of it, into a folder.

    Python before 3.11.4 has no filters, and ignores the attribute.
    """
    files.extraction_filter = getattr(tarfile, "tar_filter", None)
    files.extractall(into, members)  # noqa: S202  archives of git, and packages whose digests are locked


def read(archive: Path) -> list[Member]:
    """Return the files of an archive, in their order."""
    with tarfile.open(archive) as files:
        return [_member(files, head) for head in files if head.isfile()]


def _member(files: tarfile.TarFile, head: tarfile.TarInfo) -> Member:
    content = files.extractfile(head)
    assert content  # noqa: S101  callers pass only files
    return Member(head.name, content.read(), head.mode)
