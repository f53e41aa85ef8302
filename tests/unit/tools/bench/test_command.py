"""The command that runs every part."""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from tools.bench import __main__ as bench
from tools.bench.__main__ import PARTS, Run

RULES = {
    "resources": 4,
    "ordinary_ms": {"2": 0.05},
    "longest_ms": 1.0,
    "aims_ms": {"2": 0.1},
    "longest_aim_ms": 5.0,
}


def runner(*codes: int, said: list[list[str]] | None = None) -> Run:
    """Programs that end with these codes, one after another; those that end well write their figures."""
    left = list(codes)

    def run(words: Sequence[str]) -> int:
        if said is not None:
            said.append(list(words))
        code = left.pop(0)
        if not code:
            Path(words[-1]).write_bytes(orjson.dumps(RULES))
        return code

    return run


def test_the_page_and_its_figures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "speed.md"
    assert bench.main(["--only", "rules", "--markdown", str(page)], run=runner(0)) == 0
    assert "| an ordinary verdict, 2 zones | 0.05 ms |  |  | ≤ 0.1 ms | met |" in page.read_text()
    assert orjson.loads((tmp_path / "speed.json").read_bytes())["parts"] == {"rules": RULES}
    assert "2 of 2 targets met" in capsys.readouterr().out


def test_what_cannot_be_had_here_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    codes = runner(os.EX_UNAVAILABLE, 0)
    assert bench.main(["--only", "rate,rules", "--json", str(figures)], run=codes) == 0
    assert list(orjson.loads(figures.read_bytes())["missing"]) == ["rate"]
    assert "rate was not measured" in capsys.readouterr().out


@pytest.mark.parametrize("code", [1, -9])
def test_where_a_part_breaks_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    files = [str(tmp_path / name) for name in ("speed.md", "figures.json")]
    flags = ["--only", "columns,rules", "--markdown", files[0], "--json", files[1]]
    assert bench.main(flags, run=runner(code, 0)) == 1
    assert list(tmp_path.iterdir()) == []
    assert "failed parts: columns" in capsys.readouterr().err


def test_every_part_is_a_program() -> None:
    assert all(importlib.util.find_spec(part.module) for part in PARTS.values())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(
            ["--only", "rules,nothing"], "nothing: the parts are makes, columns, openb", id="a part"
        ),
        pytest.param(["--nodes", "5"], "unrecognized arguments: --nodes 5", id="a flag of a part"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench.main(flags, run=runner())
    assert said in capsys.readouterr().err


def test_a_quick_run_ends_well(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    assert bench.main(["--quick", "--only", "rules", "--markdown", str(page)]) == 0
    assert page.read_text().startswith("# How fast it is\n")
