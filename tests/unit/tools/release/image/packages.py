"""Packages of Debian and wheels that tests make themselves."""

import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def deb(name: str, files: Mapping[str, str]) -> bytes:
    """A package with these files, named as ./usr/bin/true."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _tar({"./control": f"Package: {name}\nVersion: 1\n"}),
        "data.tar.xz": _tar(files),
    }
    return b"!<arch>\n" + b"".join(_member(name, content) for name, content in members.items())


def wheel(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A wheel with these files, in a folder."""
    path = folder / f"{name}-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def _tar(files: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, text in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(text.encode())
            tar.addfile(header, io.BytesIO(text.encode()))
    return lzma.compress(written.getvalue())


def _member(name: str, content: bytes) -> bytes:
    padding = b"\n" * (len(content) % 2)
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content + padding
