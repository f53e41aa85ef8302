"""The lock: every use of the tree installs exact versions, which pyproject.toml declares and nobody edits."""

import re
import shutil
from pathlib import Path

import pytest

from tools.release import locks
from tools.release.locks import FOLDER, LOCKS, ROOT, check
from tools.release.plugin.targets import PLATFORMS, PYTHONS, Target
from tools.release.plugin.wheels import pinned_for


def file_of(name: str, root: Path = ROOT) -> Path:
    return root / FOLDER / f"{name}.txt"


def entries(name: str) -> list[str]:
    """Return each package of a file, with its marker and hashes."""
    return re.split(r"^(?=[a-z])", file_of(name).read_text(), flags=re.MULTILINE)[1:]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the lock is made of and of the lock."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_lock_and_project_agree() -> None:
    assert list(check(ROOT)) == []


def test_a_pin_raised_by_hand_is_reported(tree: Path) -> None:
    replace(file_of("dev", tree), "pyyaml==", "pyyaml==9")
    [line] = check(tree)
    assert line.startswith(f"{FOLDER}/dev.txt was changed by hand")
    assert "`git checkout requirements`" in line


def test_a_removed_hash_is_reported(tree: Path) -> None:
    text = file_of("image", tree).read_text()
    replace(file_of("image", tree), re.findall(r"^    --hash=.*\n", text, re.MULTILINE)[0], "")
    [line] = check(tree)
    assert line.startswith(f"{FOLDER}/image.txt was changed by hand")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dependencies = [\n", 'dependencies = [\n    "attrs>=1",\n'),
        ("tracing = [\n", 'tracing = [\n    "attrs>=1",\n'),
        ("lint = [\n", 'lint = [\n    "attrs>=1",\n'),
        ('"orjson>=3', '"orjson>=2'),
        ('requires-python = ">=3.11"', 'requires-python = ">=3.12"'),
        ('exclude-newer = "2', 'exclude-newer = "3'),
    ],
)
def test_a_dependency_changed_in_the_project_alone_is_reported(tree: Path, old: str, new: str) -> None:
    replace(tree / "pyproject.toml", old, new)
    [line] = check(tree)
    assert all(f"{name}.txt" in line for name in LOCKS)
    assert line.endswith("run `make lock`, and commit both")


@pytest.mark.parametrize("text", ["", "aiohttp==3.14.5\n", "# Written by hand.\n"])
def test_a_file_of_another_origin_is_reported(tree: Path, text: str) -> None:
    file_of("test", tree).write_text(text)
    [line] = check(tree)
    assert line.startswith(f"{FOLDER}/test.txt is missing or was not written by `make lock`")


def test_all_mistakes_are_reported_at_once(tree: Path) -> None:
    file_of("test", tree).unlink()
    replace(file_of("dev", tree), "pyyaml==", "pyyaml==9")
    assert len(list(check(tree))) == 2


def test_what_else_the_project_says_needs_no_new_lock(tree: Path) -> None:
    replace(tree / "pyproject.toml", 'version = "', 'version = "1')
    assert list(check(tree)) == []


def test_a_lock_is_made_as_of_a_time(tree: Path) -> None:
    replace(tree / "pyproject.toml", "exclude-newer", "newer")
    with pytest.raises(locks.LockError, match="add exclude-newer"):
        locks.renew(tree, "uv", "2026-11-28")


def test_the_check_is_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert locks.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_resolution_that_fails_writes_nothing_and_shows_why(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_text() for file in (tree / FOLDER).iterdir()}
    uv = tree / "uv"
    uv.write_text("#!/bin/sh\necho no solution >&2; exit 2\n")
    uv.chmod(0o755)
    monkeypatch.setattr(locks, "ROOT", tree)
    assert locks.main(["--uv", str(uv), "--as-of", "2030-01-01T00:00:00Z"]) == 1
    assert "no solution" in capsys.readouterr().err
    assert {file: file.read_text() for file in (tree / FOLDER).iterdir()} == before
    assert "2030" not in (tree / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_a_hash_and_no_line_names_a_host(name: str) -> None:
    text = file_of(name).read_text()
    assert "://" not in text
    pins = list(pinned_for(Target(PLATFORMS[0], PYTHONS[0]), text))
    assert len({pin.partition("==")[0] for pin in pins}) == len(pins) > 1


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("programs", "image"),
        ("agent", "image"),
        ("image", "test"),
        ("build", "test"),
        ("test", "dev"),
        ("build", "release"),
    ],
)
def test_what_is_in_several_files_has_one_version_and_the_same_hashes(smaller: str, larger: str) -> None:
    assert set(entries(smaller)) <= set(entries(larger))


def test_wheels_are_required_for_every_python_of_the_plugin() -> None:
    assert tuple(f"{major}.{minor}" for major, minor in PYTHONS) == locks.PYTHONS


def test_the_agent_needs_few_packages() -> None:
    agent = locks.packages(file_of("agent"))
    assert agent.isdisjoint({"numpy", "aiohttp", "kubernetes-asyncio", "cryptography"})


def test_the_programs_come_without_linters_browser_and_documentation_generator() -> None:
    tools = {"ruff", "mypy", "playwright", "sphinx", "pytest", "hypothesis", "grpcio-tools"}
    assert tools <= locks.packages(file_of("dev"))
    assert tools.isdisjoint(locks.packages(file_of("programs")))
    assert {"ruff", "mypy", "playwright", "sphinx"}.isdisjoint(locks.packages(file_of("test")))
