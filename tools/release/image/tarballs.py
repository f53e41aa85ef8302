"""Tar archives whose bytes depend only on names, contents, links, a given time, and a few mode bits."""

import io
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

_FOLDER, _EXECUTABLE, _FILE = 0o755, 0o755, 0o644
_STICKY_FOLDER = 0o1777


def layer(folder: Path, *, epoch: int) -> bytes:
    """
    Archive everything below a folder as a layer: sorted, owned by root, with one timestamp.

    Modes are normalized: folders and programs 0755, other files 0644, sticky folders 1777.
    """
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            _add(tar, path, _header(path, path.relative_to(folder).as_posix(), epoch))
    return written.getvalue()


def archive(files: Iterable[tuple[str, bytes]], *, epoch: int) -> bytes:
    """Archive contents by name, in the given order."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files:
            header = tarfile.TarInfo(name)
            header.size, header.mtime, header.mode = len(content), epoch, _FILE
            tar.addfile(header, io.BytesIO(content))
    return written.getvalue()


def _header(path: Path, name: str, epoch: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mtime = epoch
    if path.is_symlink():
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    elif path.is_dir():
        header.type = tarfile.DIRTYPE
        header.mode = _STICKY_FOLDER if path.stat().st_mode & stat.S_ISVTX else _FOLDER
    else:
        header.size = path.stat().st_size
        header.mode = _EXECUTABLE if path.stat().st_mode & stat.S_IXUSR else _FILE
    return header


def _add(tar: tarfile.TarFile, path: Path, header: tarfile.TarInfo) -> None:
    if header.isreg():
        with path.open("rb") as content:
            tar.addfile(header, content)
    else:
        tar.addfile(header)
