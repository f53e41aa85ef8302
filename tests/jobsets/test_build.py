"""The controller of JobSets is built once, and what its module ships lies beside it."""

from pathlib import Path

import pytest

from harness.gotools import UnavailableError, Workshop
from harness.jobsets import build


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where it is kept; nothing is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return build.SHOP.cache(build.SHOP.required(build.MODULE))


def make(program: Path) -> None:
    """An empty one."""
    program.parent.mkdir()
    program.touch()


def module(folder: Path) -> Path:
    """A source that has the manifests, read-only as Go keeps it."""
    for shipped in build.MANIFESTS.values():
        (folder / shipped).parent.mkdir(parents=True, exist_ok=True)
        (folder / shipped).touch(mode=0o444)
    return folder


def names(folder: Path) -> set[str]:
    """What lies there."""
    return {file.name for file in folder.iterdir()}


async def test_program_and_manifests_lie_in_one_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages: list[str] = []

    async def compile_at_once(_: Workshop, _go: str, package: str, *, into: Path) -> None:
        packages.append(package)
        make(into)

    monkeypatch.setattr(Workshop, "compiler", lambda _, *, otherwise: "go" if otherwise else "")
    monkeypatch.setattr(Workshop, "compile", compile_at_once)
    monkeypatch.setattr(build, "source", lambda _: module(tmp_path / "module"))

    assert await build.find() == await build.find() == [cache]
    assert packages == ["sigs.k8s.io/jobset"]
    assert names(cache) == {"jobset", "crd.yaml", "role.yaml", "webhooks.yaml"}


async def test_without_go_it_is_said_where_it_would_be(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=f"install Go to build it; not at {cache}"):
        await build.find()
