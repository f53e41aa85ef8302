"""Every use of the tree installs exact versions, which pyproject.toml declares and nobody edits."""

import re
import shutil
from pathlib import Path

import pytest

from tests.worlds.notation import table
from tools.release import locks
from tools.release.locks import FOLDER, LOCKS, ROOT, check
from tools.release.plugin import PYTHONS


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
    assert tuple(f"{major}.{minor}" for major, minor in PYTHONS) == locks.PYTHONS


RUN = "run `make lock`"
CHANGED = [
    # what is changed      in which file, and the report
    ("a version", "requirements/dev.txt", "pyyaml==", "pyyaml==9", "dev.txt was changed by hand: restore it"),
    ("a head", "requirements/test.txt", "# Written by `make lock`.", "#", "test.txt is missing or was not"),
    ("a dependency", "pyproject.toml", "dependencies = [", 'dependencies = ["attrs>=1",', RUN),
    ("an extra", "pyproject.toml", "tracing = [", 'tracing = ["attrs>=1",', RUN),
    ("a group", "pyproject.toml", "lint = [", 'lint = ["attrs>=1",', RUN),
    ("the Pythons", "pyproject.toml", 'requires-python = ">=3.11"', 'requires-python = ">=3.12"', RUN),
    ("the time", "pyproject.toml", 'exclude-newer = "2', 'exclude-newer = "3', RUN),
]


@pytest.mark.parametrize(("file", "old", "new", "report"), table(CHANGED))
def test_disagreement_is_reported(tree: Path, file: str, old: str, new: str, report: str) -> None:
    replace(tree / file, old, new)
    [line] = check(tree)
    assert report in line


def test_all_disagreements_are_reported_at_once(tree: Path) -> None:
    (tree / FOLDER / "test.txt").unlink()
    replace(tree / FOLDER / "dev.txt", "pyyaml==", "pyyaml==9")
    # A new version of the project needs no new lock.
    replace(tree / "pyproject.toml", 'version = "', 'version = "1')
    assert len(list(check(tree))) == 2


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


def pins(name: str) -> set[str]:
    text = (ROOT / FOLDER / f"{name}.txt").read_text()
    return {*re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]}


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash_and_no_host(name: str) -> None:
    assert len(pins(name)) > 1
    assert [
        pin for pin in pins(name) if "://" in pin or not re.match(r".* \\\n    --hash=sha256:", pin)
    ] == []


@pytest.mark.parametrize("larger", ["programs image", "agent image", "image test", "build test", "test dev"])
def test_package_has_one_version_in_all_files(larger: str) -> None:
    first, second = larger.split()
    assert pins(first) <= pins(second)


ELSEWHERE = {
    "agent": {"numpy", "aiohttp", "kubernetes-asyncio", "cryptography"},
    "programs": {"ruff", "mypy", "playwright", "sphinx", "pytest", "hypothesis", "grpcio-tools"},
    "test": {"ruff", "mypy", "playwright", "sphinx"},
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_lock_lacks_packages_of_other_uses(name: str) -> None:
    assert ELSEWHERE[name] <= {pin.partition("==")[0] for pin in pins("dev")}
    assert ELSEWHERE[name].isdisjoint(pin.partition("==")[0] for pin in pins(name))
