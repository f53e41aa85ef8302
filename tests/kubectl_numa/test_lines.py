"""Lines hang beside their label, and words stay whole."""

import io

import pytest
from rich.console import Console

from kubectl_numa.lines import NARROWEST, Paper, amounts, hanging, some, zones
from tests.notation import table


def test_words_hang_beside_their_label() -> None:
    lines = hanging("why", "as long as it takes to need three lines", width=20, indent=5)
    assert [line.plain for line in lines] == ["why  as long as it", "     takes to need", "     three lines"]


def test_a_long_name_is_never_broken() -> None:
    name = "2x64cpu-4gpu-2hca-single-numa-node-container-bcda9d70"
    assert [line.plain for line in hanging("", name, width=20, indent=2)] == [f"  {name}"]


def test_a_caret_stays_under_its_place() -> None:
    lines = [line.plain for line in hanging("", "wrong\n  a,,  b\n    ^", width=40, indent=2)]
    assert lines == ["  wrong", "    a,,  b", "      ^"]


def test_a_label_without_words_stands_alone() -> None:
    assert [line.plain for line in hanging("why", "", width=40, indent=6)] == ["why"]


@pytest.mark.parametrize(
    ("names", "shown"),
    table(
        [
            ("none", [], ""),
            ("one", ["a"], "a"),
            ("as many as may be", ["a", "b", "c", "d"], "a, b, c, d"),
            ("more", ["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
        ]
    ),
)
def test_only_some_names_are_listed(names: list[str], shown: str) -> None:
    assert some(names) == shown


@pytest.mark.parametrize(
    ("placement", "shown"),
    table(
        [
            ("one zone", [{"zones": ["node-0"], "amount": {"cpu": "8"}}], "node-0: 8 cpu"),
            ("nothing", [], "nothing of its own, so any zone will do"),
            (
                "zones that are bound together",
                [
                    {"zones": ["node-0", "node-1"], "amount": {"memory": "8Gi"}},
                    {"zones": ["node-1"], "amount": {"cpu": "2"}},
                ],
                "node-0 and node-1 together: 8Gi memory; node-1: 2 cpu",
            ),
        ]
    ),
)
def test_a_placement_in_words(placement: list[dict[str, object]], shown: str) -> None:
    assert zones(placement) == shown


def test_amounts_in_words() -> None:
    assert amounts({"cpu": "8", "memory": "1Gi"}) == "8 cpu, 1Gi memory"


def test_text_of_others_is_never_markup_and_pipes_have_no_colour() -> None:
    written = io.StringIO()
    Paper(Console(file=written, width=80)).entry("x ", "[bold]it[/bold] 12 'a'", indent=2, style="red")
    assert written.getvalue() == "x [bold]it[/bold] 12 'a'\n"


def test_a_manifest_cannot_steer_the_terminal() -> None:
    written = io.StringIO()
    Paper(Console(file=written, width=80)).write("a\x1b[31mred\x9bgone")

    assert written.getvalue() == "a\ufffd[31mred\ufffdgone\n"


def test_on_no_columns_there_is_still_something_to_read() -> None:
    written = io.StringIO()
    paper = Paper(Console(file=written, width=0))
    paper.write("here")

    assert written.getvalue() == "here\n"
    assert paper.width == NARROWEST
