"""Lines hang beside their label, and words stay whole."""

import io

import pytest
from rich.console import Console

from kubectl_numa.lines import NARROWEST, TextWriter, amounts, some, zones
from tests.worlds.notation import table


def written(label: str, words: str, *, width: int, indent: int) -> list[str]:
    file = io.StringIO()
    TextWriter(Console(file=file, width=width)).entry(label, words, indent=indent, style="red")
    return file.getvalue().splitlines()


NAME = "2x64cpu-4gpu-2hca-single-numa-node-container-bcda9d70"
ROWS = [
    # what it shows                label   words                            width  indent  lines
    ("words hang beside",          "why ", "as long as it takes, and not longer",  40,    24,
        [f"{'why':24}as long as it", f"{'':24}takes, and not", f"{'':24}longer"]),
    ("a name is never broken",     "",     NAME,                            40,    2,      [f"  {NAME}"]),
    ("a caret keeps its place", "", "wrong\n  a,,  b\n    ^",  40, 2, ["  wrong", "    a,,  b", "      ^"]),
    ("a zone keeps its number",    "",     "at zone 1 and zone 12",         40,    22,
        [f"{'':22}at zone 1 and", f"{'':22}zone 12"]),
    ("a label alone",              "why",  "",                              40,    6,      ["why"]),
    ("no markup, no colour",       "x ",   "[bold]it[/bold] 12 'a'", 80, 2, ["x [bold]it[/bold] 12 'a'"]),
]  # fmt: skip


@pytest.mark.parametrize(("label", "words", "width", "indent", "lines"), table(ROWS))
def test_an_entry(label: str, words: str, width: int, indent: int, lines: list[str]) -> None:
    assert written(label, words, width=width, indent=indent) == lines


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
            ("one zone", [{"zones": ["node-0"], "amount": {"cpu": "8"}}], "zone 0: 8 cpu"),
            ("nothing", [], "nothing exclusive, so any zone will do"),
            (
                "zones that are bound together",
                [
                    {"zones": ["node-0", "node-1"], "amount": {"memory": "8Gi"}},
                    {"zones": ["node-1"], "amount": {"cpu": "2"}},
                ],
                "zone 0 and zone 1 together: 8Gi memory; zone 1: 2 cpu",
            ),
        ]
    ),
)
def test_a_placement_in_words(placement: list[dict[str, object]], shown: str) -> None:
    assert zones(placement) == shown


def test_amounts_in_words() -> None:
    assert amounts({"cpu": "8", "memory": "1Gi"}) == "8 cpu, 1Gi memory"


def test_a_manifest_cannot_steer_the_terminal() -> None:
    written = io.StringIO()
    TextWriter(Console(file=written, width=80)).write("a\x1b[31mred\x9bgone")

    assert written.getvalue() == "a\ufffd[31mred\ufffdgone\n"


FORGED = "why\nok  team/web\u2028ok\n  a command"


def test_whoever_writes_a_line_break_writes_no_line() -> None:
    written = io.StringIO()
    writer = TextWriter(Console(file=written, width=80))
    writer.write("a\nb\u2028c")
    writer.line("no  ", FORGED, indent=4)
    writer.entry("no  ", FORGED, indent=4)

    shown = "no  why\ufffdok  team/web\ufffdok"
    assert written.getvalue().splitlines() == [
        "a\ufffdb\ufffdc",
        *(shown, "  a command"),
        *(shown, "      a command"),
    ]


def test_on_no_columns_there_is_still_something_to_read() -> None:
    written = io.StringIO()
    writer = TextWriter(Console(file=written, width=0))
    writer.write("here")

    assert written.getvalue() == "here\n"
    assert writer.width == NARROWEST
