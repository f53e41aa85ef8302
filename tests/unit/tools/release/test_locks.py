"""Every use of the tree installs exact versions, which pyproject.toml declares and nobody edits."""

import re
import shutil
from pathlib import Path

import pytest

from tools.release import locks
from tools.release.locks import FOLDER, LOCKS, ROOT, check
from tools.release.plugin import PYTHONS


def file_of(name: str, root: Path = ROOT) -> Path:
    return root / FOLDER / f"{name}.txt"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of pyproject.toml and of the lock."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_lock_and_project_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert locks.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "report"),
    [
        (
            "requirements/dev.txt",
            "pyyaml==",
            "pyyaml==9",
            "dev.txt was changed by hand: restore it with `git",
        ),
        ("requirements/image.txt", "    --hash=", "", "image.txt was changed by hand"),
        ("requirements/test.txt", "# Written by `make lock`.", "#", "test.txt is missing or was not written"),
        ("pyproject.toml", "dependencies = [\n", 'dependencies = [\n    "attrs>=1",\n', "run `make lock`"),
        ("pyproject.toml", "tracing = [\n", 'tracing = [\n    "attrs>=1",\n', "run `make lock`"),
        ("pyproject.toml", "lint = [\n", 'lint = [\n    "attrs>=1",\n', "run `make lock`"),
        ("pyproject.toml", 'requires-python = ">=3.11"', 'requires-python = ">=3.12"', "run `make lock`"),
        ("pyproject.toml", 'exclude-newer = "2', 'exclude-newer = "3', "run `make lock`"),
    ],
)
def test_disagreement_is_reported(tree: Path, file: str, old: str, new: str, report: str) -> None:
    replace(tree / file, old, new)
    [line] = check(tree)
    assert report in line


def test_all_disagreements_are_reported_at_once(tree: Path) -> None:
    file_of("test", tree).unlink()
    replace(file_of("dev", tree), "pyyaml==", "pyyaml==9")
    # A new version of the project needs no new lock.
    replace(tree / "pyproject.toml", 'version = "', 'version = "1')
    assert len(list(check(tree))) == 2


def test_lock_needs_exclude_newer(tree: Path) -> None:
    replace(tree / "pyproject.toml", "exclude-newer", "newer")
    with pytest.raises(locks.LockError, match="add exclude-newer"):
        locks.renew(tree, "uv", "2026-11-28")


def test_failed_resolution_writes_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_text() for file in (*(tree / FOLDER).iterdir(), tree / "pyproject.toml")}
    (tree / "uv").write_text("#!/bin/sh\necho no solution >&2; exit 2\n")
    (tree / "uv").chmod(0o755)
    monkeypatch.setattr(locks, "ROOT", tree)
    assert locks.main(["--uv", str(tree / "uv"), "--as-of", "2030-01-01T00:00:00Z"]) == 1
    assert "no solution" in capsys.readouterr().err
    assert {file: file.read_text() for file in before} == before


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash_and_no_host(name: str) -> None:
    text = file_of(name).read_text()
    assert "://" not in text
    pins = re.findall(r"^[a-z].*", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z].* \\\n    --hash=sha256:", text, re.MULTILINE)) > 1


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("programs", "image"), ("agent", "image"), ("image", "test"), ("build", "test"), ("test", "dev")],
)
def test_package_has_one_version_in_all_files(smaller: str, larger: str) -> None:
    first, second = (
        re.split(r"^(?=[a-z])", file_of(name).read_text(), flags=re.MULTILINE) for name in (smaller, larger)
    )
    assert {*first[1:]} <= {*second}


def test_wheels_are_required_for_pythons_of_the_plugin() -> None:
    assert tuple(f"{major}.{minor}" for major, minor in PYTHONS) == locks.PYTHONS


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("agent", {"numpy", "aiohttp", "kubernetes-asyncio", "cryptography"}),
        ("programs", {"ruff", "mypy", "playwright", "sphinx", "pytest", "hypothesis", "grpcio-tools"}),
        ("test", {"ruff", "mypy", "playwright", "sphinx"}),
    ],
)
def test_lock_lacks_packages_of_other_uses(name: str, packages: set[str]) -> None:
    assert packages <= locks.packages(file_of("dev"))
    assert packages.isdisjoint(locks.packages(file_of(name)))
