"""What one may ask for on the command line, and what comes of nonsense."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from numalign.model.errors import BadInput
from tests.worlds.notation import table
from tools.clusters.fake_api import FakeApi
from tools.clusters.sim.__main__ import fleet, main
from tools.clusters.sim.cluster import simulated
from tools.clusters.sim.shapes import SHAPES, Policy, SimNode

ROOT = Path(__file__).resolve().parents[4]


SHARED = [
    # the shapes                          nodes, and their names
    ("a number", "small=2", None, ["small-00", "small-01"]),
    ("a shape for all nodes", "small", 2, ["small-00", "small-01"]),
    ("a shape for what is left", "two-by-four=1,small", 3, ["two-by-four-00", "small-00", "small-01"]),
    ("shapes that share", "small,eight-zones", 3, ["small-00", "small-01", "eight-zones-00"]),
    ("a sum that is right", "small=1,two-by-four=1", 2, ["small-00", "two-by-four-00"]),
]


@pytest.mark.parametrize(("shapes", "nodes", "expected"), table(SHARED))
def test_shapes_are_given_out_over_nodes(shapes: str, nodes: int | None, expected: list[str]) -> None:
    assert [node.name for node in fleet(shapes, nodes=nodes)] == expected


SENSELESS = [
    ("no such shape", "tiny", None, "'tiny': want each of two-by-four"),
    ("a shape twice", "small=1,small=2", None, "'small=2': want each of"),
    ("no number", "small=x", None, "'small=x': want a number"),
    ("a digit that is no number", "small=²", None, "want a number"),
    ("nothing", "", None, "'': want each of"),
    ("another sum", "small=2", 3, "3 is not the sum"),
    ("nothing left", "small=20,two-by-four", None, "too few"),
    ("no node", "small=0", None, "one node at least"),
]


@pytest.mark.parametrize(("shapes", "nodes", "said"), table(SENSELESS))
def test_shapes_that_make_no_sense_are_refused(shapes: str, nodes: int | None, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        fleet(shapes, nodes=nodes)


async def test_duplicate_node_name_is_refused() -> None:
    async with FakeApi() as server, server.client() as api:
        with pytest.raises(BadInput, match="machines: n is there twice"):
            async with simulated(api, [SimNode("n", "small"), SimNode("n", "two-by-four")]):
                pass


INVALID = [
    ("shape", "--shape tiny", "--shape: 'tiny'"),
    ("nodes", "--nodes 0", "want one node at least"),
    ("kubelets", "--kubelets virtual", "invalid choice: 'virtual'"),
    ("version", "--kubelets real --kubernetes v1.2.3", "choice: 'v1.2.3'"),
    ("simulated exporters", "--kubelets real --delay 3 --observe",
     "--delay, --observe: not with real kubelets"),
    ("numalign", "--kubelets real --with numalign", "--with: not with real kubelets"),
    ("programs beside somebody's nodes", "--kubeconfig a --with scheduler --write-kubeconfig b",
     "--with, --write-kubeconfig: not with --kubeconfig"),
    ("with", "--with volcano", "invalid choice: 'volcano'"),
    ("delay", "--delay soon", "'soon': want seconds"),
    ("jitter", "--jitter -1", "want seconds, 0 or more"),
    ("no number", "--delay nan", "want seconds, 0 or more"),
    ("policy", "--policy single", "invalid choice: 'single'"),
    ("fingerprint", "--fingerprint some", "invalid choice: 'some'"),
    ("kubeconfig", "--kubeconfig /nowhere", "there is no kubeconfig at /nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "said"), table(INVALID))
def test_invalid_arguments_exit_with_2(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_are_printed(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([argument])
    assert ended.value.code == 0
    assert capsys.readouterr().out


async def test_missing_go_exits_with_69(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.clusters.sim", "--nodes=1", "--shape=small"),
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == os.EX_UNAVAILABLE
    assert b"install Go" in said


def test_the_readme_names_every_shape_and_policy() -> None:
    readme = (ROOT / "tools/clusters" / "sim" / "README.md").read_text()
    assert [name for name in (*SHAPES, *Policy) if f"`{name}`" not in readme] == []
