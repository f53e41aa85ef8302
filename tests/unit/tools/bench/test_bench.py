"""Every part of the benchmarks runs, and the pages are what their generators make of the stored figures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from numalign.curves import svg
from tools.bench import __main__ as bench
from tools.bench import (
    agent,
    coldstart,
    columns,
    commands,
    cpu_per_pod,
    kep_6007,
    replays,
    tables,
    webhook,
)
from tools.bench.tables import Measurement

PAGES = Path(__file__).parents[4] / "docs" / "measurements"
GENERATORS: dict[str, Any] = {"simulate": replays, "kep-6007": kep_6007}
PARTS: dict[str, Callable[..., int]] = {
    "agent": agent.main,
    "coldstart": coldstart.main,
    "columns": columns.main,
    "commands": commands.main,
    "cpu_per_pod": cpu_per_pod.main,
    "webhook": webhook.main,
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", PARTS)
def test_quick_run_writes_its_measurements(part: str, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    assert PARTS[part](["--quick", "--json", str(file)]) == 0
    measurements = [Measurement(**each) for each in orjson.loads(file.read_bytes())]
    assert measurements
    assert all(len(cells) == len(each.head) for each in measurements for cells in each.cells)


@pytest.mark.parametrize("name", GENERATORS)
def test_page_follows_from_stored_figures(name: str) -> None:
    generator, stored = GENERATORS[name], (PAGES / f"{name}.json").read_bytes()
    stored_figures = orjson.loads(stored)
    assert tables.dumped(stored_figures) == stored
    assert generator.page(stored_figures) == (PAGES / f"{name}.md").read_text()


def test_charts_follow_from_stored_figures() -> None:
    charts = replays.charts(orjson.loads((PAGES / "simulate.json").read_bytes()))
    drawn = {f"simulate-{what}.svg": svg(chart) for what, chart in charts.items()}
    assert drawn == {file.name: file.read_text() for file in PAGES.glob("*.svg")}


def test_page_of_speeds_follows_from_stored_figures() -> None:
    stored_figures = orjson.loads((PAGES / "speed.json").read_bytes())
    assert bench.page(stored_figures) == (PAGES / "speed.md").read_text()


def test_replay_of_one_seed_gives_the_stored_figures() -> None:
    run = kep_6007.Run("filling", 2, "stock", "none", replays.FIRST_SEED)
    stored = orjson.loads((PAGES / "kep-6007.json").read_bytes())["replays"][0]
    assert kep_6007.figures(kep_6007.DAYS["filling"], run.samples()) == stored["runs"][0]


def test_parts_of_the_whole_run_are_written_to_a_page(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    assert bench.main(["--quick", "--only", "commands", "--markdown", str(page)]) == 0
    assert re.search(r"\| kubectl numa explain \| \S+ \| s \|", page.read_text())


def test_negative_number_in_a_flag_is_an_error() -> None:
    with pytest.raises(SystemExit):
        columns.main(["--nodes", "-1"])
