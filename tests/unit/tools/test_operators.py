"""An operator is built once with what its module ships, by the toolchain that is known to build it."""

from pathlib import Path

import pytest

from tools.clusters.gotools import UnavailableError, Workshop
from tools.clusters.operators import Operator

MODULE = "example.com/operator"
SHIPPED = {"role.yaml": "config/role.yaml", "chart": "charts/operator"}


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Operator:
    """One of release v1.2.3; its cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "go.mod").write_text(f"module ours\n\nrequire {MODULE} v1.2.3\n")
    return Operator(Workshop("operator", tmp_path, module=MODULE), f"{MODULE}/cmd", SHIPPED)


def module(folder: Path) -> Path:
    """Its source, read-only as Go keeps it."""
    for shipped in ("config/role.yaml", "charts/operator/Chart.yaml", "charts/operator/templates/all.yaml"):
        (folder / shipped).parent.mkdir(parents=True, exist_ok=True)
        (folder / shipped).touch(mode=0o444)
    return folder


def make(program: Path) -> None:
    """An empty one."""
    program.parent.mkdir()
    program.touch()


async def test_program_and_files_lie_in_one_folder(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages: list[str] = []

    async def compile_at_once(_: Workshop, _go: str, package: str, *, into: Path) -> None:
        packages.append(package)
        make(into)

    async def source(_: Workshop, _go: str) -> Path:
        return module(tmp_path / "module")

    monkeypatch.setattr(Workshop, "compiler", lambda _, wanted: "go" if wanted else "")
    monkeypatch.setattr(Workshop, "compile", compile_at_once)
    monkeypatch.setattr(Workshop, "source", source)

    [folder] = await operator.find()

    assert await operator.find() == [folder]
    assert packages == [f"{MODULE}/cmd"]
    assert folder == operator.shop.cache("v1.2.3")
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        "operator",
        "role.yaml",
        "chart/Chart.yaml",
        "chart/templates/all.yaml",
    }


async def test_missing_go_names_the_cache_folder(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=f"install Go to build it; looked for {operator.cache}"):
        await operator.find()


@pytest.mark.parametrize(("line", "toolchain"), [("", "auto"), ("toolchain go1.26.8\n", "go1.26.8")])
def test_named_toolchain_is_not_replaced(tmp_path: Path, line: str, toolchain: str) -> None:
    (tmp_path / "go.mod").write_text(f"module ours\n\ngo 1.26.0\n{line}")

    assert Workshop("operator", tmp_path).environment["GOTOOLCHAIN"] == toolchain
