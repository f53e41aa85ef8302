"""Every part of the benchmarks runs, and the pages are what their generators make of the stored figures."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tools.bench import __main__ as bench
from tools.bench import agent, coldstart, columns, commands, cpu_per_pod, kep_6007, replays, tables, webhook

PAGES = Path(__file__).parents[3] / "docs" / "measurements"
GENERATORS: dict[str, Any] = {"simulate": replays, "kep-6007": kep_6007, "speed": bench}
PARTS: dict[str, Any] = {
    part.__name__.rpartition(".")[2]: part
    for part in (agent, coldstart, columns, commands, cpu_per_pod, webhook)
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", PARTS)
def test_quick_run_writes_its_measurements(part: str, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    assert PARTS[part].main(["--quick", "--json", str(file)]) == 0
    assert [tables.Measurement(**each) for each in orjson.loads(file.read_bytes())]


def test_page_of_the_whole_run_has_its_parts(tmp_path: Path) -> None:
    page, file = tmp_path / "speed.md", tmp_path / "found.json"
    flags = ("--quick", "--only", "commands", "--json", str(file), "--markdown", str(page))
    assert bench.main(flags) == 0
    assert re.search(r"\| kubectl numa explain \| \S+ \| s \|", page.read_text())
    assert [each["part"] for each in orjson.loads(file.read_bytes())] == ["commands"]


@pytest.mark.parametrize("name", GENERATORS)
def test_page_follows_from_stored_figures(name: str) -> None:
    generator, stored = GENERATORS[name], (PAGES / f"{name}.json").read_bytes()
    figures = orjson.loads(stored)
    assert tables.dumped(figures) == stored
    assert generator.page(figures) == (PAGES / f"{name}.md").read_text()


def test_charts_follow_from_stored_figures() -> None:
    charts = replays.charts(orjson.loads((PAGES / "simulate.json").read_bytes()))
    drawn = {f"simulate-{name}": chart for name, chart in charts.items()}
    assert drawn == {file.name: file.read_text() for file in PAGES.glob("*.svg")}


def test_replay_of_one_seed_gives_the_stored_figures() -> None:
    found = kep_6007.replay("filling", 2, "stock", "none", replays.FIRST_SEED)
    assert found == orjson.loads((PAGES / "kep-6007.json").read_bytes())["replays"][0]["runs"][0]
