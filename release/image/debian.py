"""The base of the images: packages of Debian, unpacked without dpkg and without root.

No script of a package is run. What these scripts would have written, as far as the programs need it, is
written here: the bundle of certificate authorities, users, and the order in which host names are resolved.
"""

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from release import tar_files
from release.image.downloads import fetch
from release.image.errors import BuildError

MIRROR = "https://deb.debian.org"
SNAPSHOTS = "https://snapshot.debian.org/archive"
"""Has every package that Debian ever had, by the time at which it had it."""

BUNDLE = "etc/ssl/certs/ca-certificates.crt"
_AUTHORITIES = "usr/share/ca-certificates"
_COPYRIGHT = re.compile(r"usr/share/doc/[^/]+/copyright")
_LEFT_OUT = re.compile(
    r"usr/share/(doc|man|info|locale|lintian|gdb|bug|binfmts|pixmaps|applications|menu)/"
    # Character sets of iconv, which Python does not use.
    r"|(usr/)?lib/[^/]+/gconv/"
    # Python's modules around libraries that the base does not have (`release.image.lock.LEFT_OUT`).
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
    # Without it, glibc asks DNS before /etc/hosts.
    "etc/nsswitch.conf": "hosts: files dns\n",
}


@dataclass(frozen=True, slots=True)
class Package:
    """An exact package; `path` is below a mirror, as debian/pool/main/n/netbase/netbase_6.4_all.deb."""

    name: str
    version: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Lock:
    """The packages of each platform, and when Debian had all of them: YYYYMMDDTHHMMSSZ."""

    snapshot: str
    packages: Mapping[str, Sequence[Package]]


def read_lock(file: Path) -> Lock:
    """The lock that `release.image.lock` wrote."""
    content = json.loads(file.read_text())
    packages = {
        platform: tuple(Package(**package) for package in packages)
        for platform, packages in content["packages"].items()
    }
    return Lock(content["snapshot"], packages)


def unpack(packages: Sequence[Package], folder: Path, *, snapshot: str) -> None:
    """The root file system of these packages, in an empty folder."""
    for package in packages:
        members = ar_members(fetch(_urls(package, snapshot), package.sha256))
        _data(members, folder)
        _describe(package, members, folder)
    _finish(folder)


def _urls(package: Package, snapshot: str) -> tuple[str, str]:
    archive, _, rest = package.path.partition("/")
    return f"{MIRROR}/{package.path}", f"{SNAPSHOTS}/{archive}/{snapshot}/{rest}"


def ar_members(deb: bytes) -> dict[str, bytes]:
    """The members of a package by name, of which each follows its header of 60 bytes (deb(5), ar(5))."""
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
    """Whether a file of a package, as ./usr/bin/python3.11, is of use in an image."""
    path = PurePosixPath(name).as_posix()
    return bool(_COPYRIGHT.fullmatch(path)) or not _LEFT_OUT.match(f"{path}/")


def _describe(package: Package, members: Mapping[str, bytes], folder: Path) -> None:
    """What dpkg would know of a package, where scanners look for it in images without dpkg."""
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
    """The paragraphs of a control file, each a field of one or more lines by name (deb822(5))."""
    for paragraph in re.split(r"\n{2,}", text.strip()):
        fields = re.findall(r"^([^\s:]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        yield dict(fields)
