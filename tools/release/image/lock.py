"""Updates deploy/image-lock.json with the packages that Debian has now, for each platform.

`python -m tools.release.image.lock` needs Debian's keys, gpgv and dpkg, so it runs on Debian or a
derivative. It verifies Debian's signature of the package lists; builds verify their downloads against the
lock.
"""

import json
import lzma
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tools.release.image.commands import run, succeeds
from tools.release.image.debian import MIRROR, Package, paragraphs
from tools.release.image.downloads import fetch, read
from tools.release.image.errors import BuildError

FILE = Path(__file__).resolve().parents[3] / "deploy" / "image-lock.json"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

SUITES = (
    ("debian", "bookworm"),
    ("debian", "bookworm-updates"),
    ("debian-security", "bookworm-security"),
)
ARCHITECTURES = {"linux/amd64": "amd64", "linux/arm64": "arm64"}

WANTED = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)

LEFT_OUT = {
    "awk": "scripts of base-files, which nothing runs",
    "debconf": "questions of scripts, which nothing runs",
    "gcc-12-base": "documents alone",
    "libdb5.3": "dbm",
    "libncursesw6": "curses",
    "libnsl2": "nis",
    "libreadline8": "readline",
    "libsqlite3-0": "sqlite3",
    "libtinfo6": "curses and readline",
    "libtirpc3": "nis",
    "media-types": "mimetypes has a table of its own",
    "openssl": "its program alone",
}
"""Dependencies of the packages above that the images do not contain, and what would need them."""


def main() -> int:
    """Write the lock, print the number of its packages, and return the exit code."""
    packages = {platform: locked(architecture) for platform, architecture in ARCHITECTURES.items()}
    content = {
        "about": "Made by `python -m tools.release.image.lock`.",
        "snapshot": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        "packages": {platform: [asdict(package) for package in each] for platform, each in packages.items()},
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")
    sys.stdout.write(f"{FILE}: {sum(map(len, packages.values()))} packages\n")
    return 0


def locked(architecture: str) -> list[Package]:
    """Return the newest version of each package of `WANTED`.

    Raise `BuildError` if a dependency is neither in `WANTED` nor in `LEFT_OUT`.
    """
    newest: dict[str, tuple[Package, dict[str, str]]] = {}
    for archive, suite in SUITES:
        for fields in _listed(archive, suite, architecture):
            name, version = fields["Package"], fields["Version"]
            if name in WANTED and (name not in newest or _is_newer(version, newest[name][0].version)):
                package = Package(name, version, f"{archive}/{fields['Filename']}", fields["SHA256"])
                newest[name] = package, fields
    if missing := unmet({name: fields for name, (_, fields) in newest.items()}):
        raise BuildError(f"{architecture}: neither wanted nor left out: {', '.join(missing)}")
    return [newest[name][0] for name in WANTED]


def unmet(fields: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the dependencies without an alternative in `WANTED` or `LEFT_OUT`; `fields` are by package."""
    decided = {*WANTED, *LEFT_OUT}
    groups = (group for each in fields.values() for group in _dependencies(each))
    return sorted({" | ".join(group) for group in groups if decided.isdisjoint(group)})


def _dependencies(fields: Mapping[str, str]) -> Iterable[tuple[str, ...]]:
    listed = ",".join(fields.get(field, "") for field in ("Pre-Depends", "Depends"))
    for group in filter(str.strip, listed.split(",")):
        yield tuple(re.split(r"[\s(:]", name.strip(), maxsplit=1)[0] for name in group.split("|"))


def _listed(archive: str, suite: str, architecture: str) -> Iterable[dict[str, str]]:
    base = f"{MIRROR}/{archive}/dists/{suite}"
    name = f"main/binary-{architecture}/Packages.xz"
    signed = _signed(f"{base}/InRelease")
    digest = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(name)}$", signed, re.MULTILINE)
    if not digest:
        raise BuildError(f"{base}/InRelease does not list {name}")
    return paragraphs(lzma.decompress(fetch([f"{base}/{name}"], digest[1])).decode())


def _signed(url: str) -> str:
    """Return the signed text at a URL. Raise `BuildError` if it is not signed by Debian."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(read(url))
        file.flush()
        command = ("gpgv", "--keyring", str(KEYS), "--output", "-", file.name)
        return run(command, otherwise=f"{url} is not signed by Debian").decode()


def _is_newer(version: str, other: str) -> bool:
    return succeeds(("dpkg", "--compare-versions", version, "gt", other))


if __name__ == "__main__":
    sys.exit(main())
