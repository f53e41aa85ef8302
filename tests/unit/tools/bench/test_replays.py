"""Replays that are measured: the command, its bad input, and the page that is kept with the sources."""

from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import orjson
import pytest

from numalign.simulation.node_policies import NODE_POLICIES
from numalign.simulation.node_replay import replay_on_nodes
from numalign.simulation.replay_summary import to_document
from numalign.simulation.trace import read_trace
from tools.bench import replay_page, replays
from tools.bench.published import ARRIVED, PUBLISHED

DOCS = Path(__file__).parents[4] / "docs" / "measurements"
NODES = "cpu_milli,memory_mib,gpu,model\n16000,1024,4,T4\n16000,1024,0,\n"
PODS = "cpu_milli,memory_mib,num_gpu,gpu_milli,qos\n1000,64,1,500,LS\n2000,64,1,1000,BE\n1000,64,0,0,LS\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in zip(replays.LISTS, (NODES, PODS), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def kept() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((DOCS / "simulate.json").read_bytes())
    return found


def run(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr("sys.argv", ["tools.bench.replays", *flags])
    return replays.main()


def test_the_page_and_its_charts_are_made_of_the_figures() -> None:
    assert (DOCS / "simulate.md").read_text(encoding="utf-8") == replay_page.page(kept())
    for name, chart in replay_page.charts(kept()).items():
        assert (DOCS / replay_page.chart_file(name)).read_text(encoding="utf-8") == chart


@pytest.mark.parametrize("policy", ["Random", "FGD"])
def test_the_figures_are_those_that_come_out_today(policy: str) -> None:
    trace = read_trace(*replays.files(None)).with_gpus()
    found = kept()
    *_, last = replay_on_nodes(trace, policy, ratio=found["ratio"], seed=found["seeds"][0])
    assert found["policies"][policy]["runs"][0] == to_document(last)


def test_the_figures_are_within_a_point_of_those_that_were_published() -> None:
    found = kept()
    assert len(found["seeds"]) == 10
    for name, curve in PUBLISHED.items():
        mean = found["policies"][name]["mean"]
        assert mean["allocated"] == pytest.approx(curve.allocated[-1], abs=1)
        assert mean["fragments"] == pytest.approx(curve.fragments[-1], abs=1)
        assert len(curve.allocated) == len(curve.fragments) == len(ARRIVED)


def test_the_command_writes_page_figures_and_charts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = folder / "page.md"
    assert (
        run(monkeypatch, "--trace", str(folder), "--seeds", "2", "--zone-seeds", "2", "--markdown", str(page))
        == 0
    )
    told = capsys.readouterr()
    assert all(name in told.out for name in (*NODE_POLICIES, "gate"))
    assert "no zones, FGD, seed 43: " in told.err
    assert "4 zones, gate, seed 43: " in told.err
    assert "1 nodes with 4 GPUs" in page.read_text(encoding="utf-8")
    found = orjson.loads((folder / "page.json").read_bytes())
    assert found["seeds"] == [42, 43]
    assert found["trace"] == {"nodes": 1, "gpus": 4, "pods": 3}
    assert {path.name for path in folder.glob("*.svg")} == set(
        map(replay_page.chart_file, replay_page.charts(found))
    )


def test_a_trace_that_cannot_be_read_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / replays.LISTS[0]).write_text("cpu_milli\n1\n", encoding="utf-8")
    assert run(monkeypatch, "--trace", str(folder)) == 2
    assert 'there is no column "gpu"' in capsys.readouterr().err
    assert run(monkeypatch, "--trace", str(folder / "nowhere")) == 2
    assert strerror(ENOENT) in capsys.readouterr().err
