"""Packages are unpacked as far as images want them, and only if their bytes are those of the lock."""

import hashlib
from pathlib import Path

import pytest

from tests.unit.tools.release.image.packages import deb
from tools.release.image import debian, downloads
from tools.release.image.errors import BuildError

AUTHORITIES = {
    "./usr/share/ca-certificates/mozilla/B.crt": "second\n",
    "./usr/share/ca-certificates/mozilla/A.crt": "first\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a mirror in a folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(debian, "MIRROR", (tmp_path / "mirror").as_uri())
    monkeypatch.setattr(debian, "SNAPSHOTS", (tmp_path / "snapshots").as_uri())
    return downloads.cache()


def offered(
    folder: Path, name: str, files: dict[str, str], *, below: str = "mirror/debian"
) -> debian.Package:
    """A package in the pool of a mirror."""
    content = deb(name, files)
    file = folder / below / "pool" / f"{name}.deb"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return debian.Package(name, "1", f"debian/pool/{name}.deb", hashlib.sha256(content).hexdigest())


def test_a_base_has_the_files_of_its_packages_and_what_their_scripts_would_have_written(
    tmp_path: Path,
) -> None:
    packages = [
        offered(tmp_path, "python", {"./usr/bin/python": "elf", "./usr/share/man/man1/python.1": "page"}),
        offered(tmp_path, "ca-certificates", AUTHORITIES),
    ]
    base = tmp_path / "base"
    debian.unpack(packages, base, snapshot="20260101T000000Z")

    assert (base / "usr/bin/python").read_text() == "elf"
    assert not (base / "usr/share/man").exists()
    assert (base / "etc/ssl/certs/ca-certificates.crt").read_text() == "first\nsecond\n"
    assert "nonroot:x:65532:65532:" in (base / "etc/passwd").read_text()
    assert (base / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_scanners_read_which_packages_there_are(tmp_path: Path) -> None:
    package = offered(tmp_path, "python", {})
    debian.unpack([package], tmp_path / "base", snapshot="")

    described = (tmp_path / "base/var/lib/dpkg/status.d/python").read_text()
    assert list(debian.paragraphs(described)) == [{"Package": "python", "Version": "1"}]


def test_a_package_that_the_mirror_no_longer_has_comes_from_the_archive_of_its_day(tmp_path: Path) -> None:
    package = offered(tmp_path, "old", {"./old": "yes"}, below="snapshots/debian/20260101T000000Z")
    debian.unpack([package], tmp_path / "base", snapshot="20260101T000000Z")

    assert (tmp_path / "base/old").read_text() == "yes"


def test_what_was_downloaded_is_not_asked_for_again(tmp_path: Path, cache: Path) -> None:
    package = offered(tmp_path, "kept", {"./kept": "yes"})
    debian.unpack([package], tmp_path / "first", snapshot="")
    (tmp_path / "mirror/debian/pool/kept.deb").unlink()
    debian.unpack([package], tmp_path / "second", snapshot="")

    assert (cache / "sha256" / package.sha256).is_file()
    assert (tmp_path / "second/kept").read_text() == "yes"


def test_other_bytes_than_those_of_the_lock_are_refused_with_every_place_that_was_tried(
    tmp_path: Path,
) -> None:
    package = offered(tmp_path, "changed", {"./file": "locked"})
    offered(tmp_path, "changed", {"./file": "other"})
    with pytest.raises(BuildError) as refused:
        debian.unpack([package], tmp_path / "base", snapshot="20260101T000000Z")

    assert package.sha256 in str(refused.value)
    assert "mirror/debian/pool/changed.deb: its SHA-256 is " in str(refused.value)
    assert "snapshots/debian/20260101T000000Z/pool/changed.deb: " in str(refused.value)
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("./usr/share/doc/libc6/copyright", True),
        ("./usr/share/doc/libc6/changelog.gz", False),
        ("./usr/share/zoneinfo/UTC", True),
        ("./usr/lib/x86_64-linux-gnu/gconv/UTF-16.so", False),
        ("./usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True),
        ("./usr/lib/python3.11/lib-dynload/readline.cpython-311-x86_64-linux-gnu.so", False),
        ("./usr/lib/python3.11/asyncio/base_events.py", True),
    ],
)
def test_documents_and_modules_without_their_libraries_are_left_out(name: str, *, wanted: bool) -> None:
    assert debian.is_wanted(name) == wanted
