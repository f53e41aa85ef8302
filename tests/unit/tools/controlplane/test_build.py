"""What the cache lacks is built, and what it has is kept; of a folder of others less is asked."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.clusters.controlplane import build
from tools.clusters.gotools import BrokenError, UnavailableError, Workshop

VERSION = build.USUAL


def fill(folder: Path, *names: str) -> None:
    """Programs, of which nobody looks at more than the name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def names(folder: Path) -> set[str]:
    """What lies there."""
    return {file.name for file in folder.iterdir()}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that Go was asked for; it makes an empty program of each at once."""
    packages: list[str] = []

    async def compile_at_once(
        _: Workshop, go: str, package: str, *, into: Path, flags: Iterable[str]
    ) -> None:
        assert (go, [*flags]) == ("go", [])
        packages.append(package)
        fill(into.parent, into.name)

    monkeypatch.setattr(Workshop, "compiler", lambda _, _wanted, _remedy: "go")
    monkeypatch.setattr(Workshop, "compile", compile_at_once)
    return packages


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the usual version is kept; nothing is there."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return build.versions()[VERSION].cache(VERSION)


async def test_an_empty_cache_is_filled(compiled: list[str], cache: Path) -> None:
    assert await build.find() == [cache]
    assert compiled == [*build.PACKAGES.values()]
    assert names(cache) == {*build.PACKAGES}


async def test_incomplete_cache_is_completed(compiled: list[str], cache: Path) -> None:
    fill(cache, "etcd", "kube-apiserver", "kube-scheduler")

    assert await build.find(VERSION) == [cache]
    assert compiled == ["k8s.io/kubernetes/cmd/kube-controller-manager"]
    assert names(cache) == {*build.PACKAGES}


async def test_a_full_cache_needs_no_go(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fill(cache, *build.PACKAGES)

    assert await build.find() == [cache]


async def test_missing_go_names_what_was_searched(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        UnavailableError, match=f"install Go to build it, or set KUBEBUILDER_ASSETS.*looked for {cache}"
    ):
        await build.find()


async def test_given_folder_needs_only_the_common_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    fill(tmp_path, "etcd")
    with pytest.raises(BrokenError, match="lacks kube-apiserver"):
        await build.find()

    fill(tmp_path, "kube-apiserver")
    assert await build.find() == [tmp_path]


async def test_another_version_is_none() -> None:
    with pytest.raises(UnavailableError, match=r"no kube-apiserver v1\.2\.3 here"):
        await build.find("v1.2.3")
