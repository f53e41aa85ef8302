"""The base of the images: packages of Debian, unpacked without dpkg and without root.

No maintainer script of a package is run. This module writes what the programs need of their results: the
bundle of certificate authorities, the users, and the order of sources for host names.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.release import tar_files
from tools.release.image.downloads import fetch
from tools.release.image.errors import BuildError

MIRROR = "https://deb.debian.org"
SNAPSHOTS = "https://snapshot.debian.org/archive"
"""The archive of all packages that Debian ever published, by timestamp."""

BUNDLE = "etc/ssl/certs/ca-certificates.crt"
_AUTHORITIES = "usr/share/ca-certificates"
_COPYRIGHT = re.compile(r"usr/share/doc/[^/]+/copyright")
_LEFT_OUT = re.compile(
    r"usr/share/(doc|man|info|locale|lintian|gdb|bug|binfmts|pixmaps|applications|menu)/"
    # Character sets of iconv: Python does not use them.
    r"|(usr/)?lib/[^/]+/gconv/"
    # Python modules that need libraries that the base does not contain (`tools.release.image.lock.LEFT_OUT`).
    r"|usr/lib/python3\.11/lib-dynload/(_curses|_curses_panel|_dbm|_sqlite3|nis|readline)\."
    r"|usr/lib/python3\.11/(lib2to3|pydoc_data|distutils)/"
)
_WRITTEN = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
        "nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
    ),
    "etc/group": "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n",
    # Without this file, glibc asks DNS before it reads /etc/hosts.
    "etc/nsswitch.conf": "hosts: files dns\n",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A version of a package; `path` is below a mirror: debian/pool/main/n/netbase/netbase_6.4_all.deb."""

    name: str
    version: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Lock:
    """The packages of each platform, and a time at which Debian had all of them: YYYYMMDDTHHMMSSZ."""

    snapshot: str
    packages: Mapping[str, Sequence[Package]]


def read_lock(file: Path) -> Lock:
    """Read the lock that `tools.release.image.lock` wrote."""
    content = json.loads(file.read_text())
    packages = {
        platform: tuple(Package(**package) for package in packages)
        for platform, packages in content["packages"].items()
    }
    return Lock(content["snapshot"], packages)


def unpack(packages: Sequence[Package], folder: Path, *, snapshot: str) -> None:
    """Build the root file system of these packages in an empty folder."""
    for package in packages:
        members = ar_members(fetch(_urls(package, snapshot), package.sha256))
        _data(members, folder)
        _describe(package, members, folder)
    _finish(folder)


def _urls(package: Package, snapshot: str) -> tuple[str, str]:
    archive, _, rest = package.path.partition("/")
    return f"{MIRROR}/{package.path}", f"{SNAPSHOTS}/{archive}/{snapshot}/{rest}"


def ar_members(deb: bytes) -> dict[str, bytes]:
    """Return the members of a package by name; a header of 60 bytes precedes each (deb(5), ar(5))."""
    members: dict[str, bytes] = {}
    offset = len(b"!<arch>\n")
    while offset < len(deb):
        header = deb[offset : offset + 60]
        size = int(header[48:58])
        members[header[:16].decode().rstrip(" /")] = deb[offset + 60 : offset + 60 + size]
        offset += 60 + size + size % 2
    return members


def _data(members: Mapping[str, bytes], folder: Path) -> None:
    with _tar(members, "data.tar") as tar:
        wanted = [member for member in tar if is_wanted(member.name)]
        tar_files.unpack(tar, folder, wanted)


def is_wanted(name: str) -> bool:
    """Return whether an image needs a file of a package; names look like ./usr/bin/python3.11."""
    path = PurePosixPath(name).as_posix()
    return bool(_COPYRIGHT.fullmatch(path)) or not _LEFT_OUT.match(f"{path}/")


def _describe(package: Package, members: Mapping[str, bytes], folder: Path) -> None:
    """Write the control file of a package to the place where scanners look for it in images without dpkg."""
    with _tar(members, "control.tar") as tar:
        [control] = [member for member in tar if PurePosixPath(member.name).name == "control"]
        content = tar.extractfile(control)
        if content is None:
            raise BuildError(f"{package.path}: control is not a file")
        _write(folder / "var/lib/dpkg/status.d" / package.name, content.read())


def _tar(members: Mapping[str, bytes], stem: str) -> tarfile.TarFile:
    [content] = [content for name, content in members.items() if name.startswith(stem)]
    return tarfile.open(fileobj=io.BytesIO(content), mode="r:*")


def _finish(folder: Path) -> None:
    authorities = sorted((folder / _AUTHORITIES).rglob("*.crt"))
    _write(folder / BUNDLE, b"".join(each.read_bytes() for each in authorities))
    for name, text in _WRITTEN.items():
        _write(folder / name, text.encode())
    for name in ("tmp", "var/tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(0o1777)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of a control file: the fields by name, each of one or more lines (deb822(5))."""
    for paragraph in re.split(r"\n{2,}", text.strip()):
        fields = re.findall(r"^([^\s:]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        yield dict(fields)
