"""Replays under the options of KEP-6007: the smallest cases, and the page that is kept with the sources."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.worlds.notation import table
from tools.bench import kep_6007, kep_6007_page
from tools.bench.kep_6007 import DAYS, KUBELETS, Run
from tools.bench.kep_6007_cases import CASES, Case, outcome

DOCS = Path(__file__).parents[4] / "docs" / "measurements"


def kept() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((DOCS / "kep-6007.json").read_bytes())
    return found


def run(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr("sys.argv", ["tools.bench.kep_6007", *flags])
    return kep_6007.main()


PINNED, NEEDED, PLAIN = CASES

SMALLEST = [
    # what it shows                          kubelets                 case     zones
    ("today a large pod is rejected",        "none",                  PINNED, [1, 0, None]),
    ("beside the pinned pod it is admitted", "prefer-most-allocated", PINNED, [1, 1, 0]),
    ("by scores as well",                    "most-allocated",        PINNED, [1, 1, 0]),
    ("spread it is rejected",                "least-allocated",       PINNED, [1, 0, None]),
    ("today a device can be used",           "none",                  NEEDED, [1, 0, 1]),
    ("CPUs beside it are gone",              "prefer-most-allocated", NEEDED, [1, 1, None]),
    ("by scores too",                        "most-allocated",        NEEDED, [1, 1, None]),
    ("spread it can be used",                "least-allocated",       NEEDED, [1, 0, 1]),
    ("the lowest zone packs by itself",      "none",                  PLAIN,  [0, 0, 1]),
    ("so the option changes nothing",        "prefer-most-allocated", PLAIN,  [0, 0, 1]),
    ("spread nothing is left whole",         "least-allocated",       PLAIN,  [0, 1, None]),
]  # fmt: skip


@pytest.mark.parametrize(("kubelets", "case", "zones"), table(SMALLEST))
def test_of_three_pods_on_one_node(kubelets: str, case: Case, zones: list[int | None]) -> None:
    assert outcome(case, KUBELETS[kubelets]) == zones


def test_the_page_and_its_charts_are_made_of_the_figures() -> None:
    assert (DOCS / "kep-6007.md").read_text(encoding="utf-8") == kep_6007_page.page(kept())
    charts = kep_6007_page.charts(kept())
    assert {path.name for path in DOCS.glob("kep-6007-*.svg")} == set(charts)
    for name, chart in charts.items():
        assert (DOCS / name).read_text(encoding="utf-8") == chart


def test_the_page_has_the_cases_that_come_out_today() -> None:
    expected = [
        (case.title, {name: outcome(case, options) for name, options in KUBELETS.items()}) for case in CASES
    ]
    assert [(case["title"], case["zones"]) for case in kept()["cases"]] == expected


@pytest.mark.full
@pytest.mark.parametrize("kubelets", KUBELETS)
def test_the_figures_are_those_that_come_out_today(kubelets: str) -> None:
    one = Run("filling", 2, "stock", kubelets, kept()["seeds"][0])
    kind = {"day": one.day, "zones": one.zones, "scheduler": one.scheduler, "kubelet": kubelets}
    [found] = [each["runs"][0] for each in kept()["replays"] if kind.items() <= each.items()]
    assert kep_6007.summed_up(DAYS["filling"], [one.samples()])["runs"] == [found]


def test_the_command_writes_page_figures_and_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kep_6007, "measure", lambda seeds: {**kept(), "seeds": [seeds]})
    assert run(monkeypatch, "--seeds", "7", "--markdown", str(tmp_path / "page.md")) == 0
    assert "turnover, 4 zones" in capsys.readouterr().out
    assert "Seeds: 7." in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert orjson.loads((tmp_path / "page.json").read_bytes()) == {**kept(), "seeds": [7]}
    assert {path.name for path in tmp_path.glob("*.svg")} == set(kep_6007_page.charts(kept()))
