"""Programs that are written in Go are found where they should be, or built once."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.clusters.controlplane import build as controlplane
from tools.clusters.ecosystem import Operator
from tools.clusters.gotools import BrokenError, UnavailableError, Workshop
from tools.clusters.helm import build as helm
from tools.clusters.processes import PORTS, free_port

PROGRAMS = [*controlplane.PACKAGES]
MODULE = "example.com/operator"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the programs of a control plane are kept; nothing is there. Nor is Go."""
    for name in ("HELM", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return controlplane.versions()[controlplane.USUAL].cache(controlplane.USUAL)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The packages that Go was asked for; it makes an empty program of each at once."""
    packages: list[str] = []

    async def compile_at_once(
        _: Workshop, _go: str, package: str, *, into: Path, flags: Iterable[str] = ()
    ) -> None:
        assert not [*flags]
        packages.append(package)
        fill(into.parent, into.name)

    monkeypatch.setattr(Workshop, "compile", compile_at_once)
    (tmp_path / "go").touch(mode=0o755)
    return packages


def fill(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("lacking", [PROGRAMS, PROGRAMS[-1:], []])
async def test_only_missing_programs_are_built(compiled: list[str], cache: Path, lacking: list[str]) -> None:
    fill(cache, *(name for name in PROGRAMS if name not in lacking))
    assert await controlplane.find() == [cache]
    assert compiled == [controlplane.PACKAGES[name] for name in lacking]
    assert names(cache) == {*PROGRAMS}


async def test_error_of_missing_go_has_a_remedy(cache: Path) -> None:
    needed = "install Go to build it, or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
    with pytest.raises(UnavailableError, match=rf"no etcd here: {needed} .*; looked for {cache}"):
        await controlplane.find()
    with pytest.raises(UnavailableError, match="no helm here: install Go to build it, or set HELM"):
        await helm.find()


async def test_variables_name_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HELM", str(tmp_path / "helm"))
    with pytest.raises(BrokenError, match=r"HELM names .*/helm, which is no file"):
        await helm.find()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    fill(tmp_path, "helm", "etcd")
    assert await helm.find() == [tmp_path / "helm"]
    with pytest.raises(BrokenError, match="lacks kube-apiserver"):
        await controlplane.find()
    fill(tmp_path, "kube-apiserver")
    assert await controlplane.find() == [tmp_path]


async def test_another_version_is_none() -> None:
    with pytest.raises(UnavailableError, match=r"no kube-apiserver v1\.2\.3 here"):
        await controlplane.find("v1.2.3")


async def test_files_of_an_operator_lie_next_to_it(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for shipped in ("config/role.yaml", "charts/operator/Chart.yaml", "charts/operator/templates/all.yaml"):
        (tmp_path / "module" / shipped).parent.mkdir(parents=True, exist_ok=True)
        # Go keeps them like this.
        (tmp_path / "module" / shipped).touch(mode=0o444)

    async def source(_: Workshop, _go: str) -> Path:
        return tmp_path / "module"

    monkeypatch.setattr(Workshop, "source", source)
    (tmp_path / "go.mod").write_text(f"module ours\n\nrequire {MODULE} v1.2.3\n")
    shop = Workshop("operator", tmp_path, module=MODULE)
    operator = Operator(shop, f"{MODULE}/cmd", {"role.yaml": "config/role.yaml", "chart": "charts/operator"})

    assert await operator.find() == await operator.find() == [shop.cache("v1.2.3")]
    assert compiled == [f"{MODULE}/cmd"]
    [folder] = await operator.find()
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files == {"operator", "role.yaml", "chart/Chart.yaml", "chart/templates/all.yaml"}


@pytest.mark.parametrize(("line", "toolchain"), [("", "auto"), ("toolchain go1.26.8\n", "go1.26.8")])
def test_named_toolchain_is_not_replaced(tmp_path: Path, line: str, toolchain: str) -> None:
    (tmp_path / "go.mod").write_text(f"module ours\n\ngo 1.26.0\n{line}")
    assert Workshop("operator", tmp_path).environment["GOTOOLCHAIN"] == toolchain


def test_no_port_is_given_twice() -> None:
    given = [free_port() for _ in range(200)]
    assert len({*given}) == len(given)
    assert {*given} <= {*PORTS}
