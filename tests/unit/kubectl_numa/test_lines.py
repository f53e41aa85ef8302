"""Lines are indented below their label, and words stay whole; notices are beside an answer."""

import io
import time

import pytest
from rich.console import Console

from kubectl_numa import lines
from kubectl_numa.lines import NARROWEST, TextWriter, amounts, some, zones
from tests.worlds.notation import table


def writer(width: int = 80) -> tuple[TextWriter, io.StringIO]:
    file = io.StringIO()
    return TextWriter(Console(file=file, width=width)), file


NAME = "2x64cpu-4gpu-2hca-single-numa-node-container-bcda9d70"
ROWS = [
    # what it shows                label   words                            width  indent  lines
    ("words are indented",         "why ", "as long as it takes, and not longer",  40,    24,
        [f"{'why':24}as long as it", f"{'':24}takes, and not", f"{'':24}longer"]),
    ("a name is never broken",     "",     NAME,                            40,    2,      [f"  {NAME}"]),
    ("a caret keeps its place", "", "wrong\n  a,,  b\n    ^",  40, 2, ["  wrong", "    a,,  b", "      ^"]),
    ("a zone keeps its number",    "",     "at zone 1 and zone 12",         40,    22,
        [f"{'':22}at zone 1 and", f"{'':22}zone 12"]),
    ("a label alone",              "why",  "",                              40,    6,      ["why"]),
    ("no markup, no colour",       "x ",   "[bold]it[/bold] 12 'a'", 80, 2, ["x [bold]it[/bold] 12 'a'"]),
]  # fmt: skip


@pytest.mark.parametrize(("label", "words", "width", "indent", "lines"), table(ROWS))
def test_an_entry_is_indented(label: str, words: str, width: int, indent: int, lines: list[str]) -> None:
    text, file = writer(width)
    text.entry(label, words, indent=indent, style="red")

    assert file.getvalue().splitlines() == lines


TOGETHER = [
    {"zones": ["node-0", "node-1"], "amount": {"memory": "8Gi"}},
    {"zones": ["node-1"], "amount": {"cpu": "2"}},
]
WORDS = [
    ("no names", some([]), ""),
    ("more names", some([*"abcde"]), "a, b, c and 2 more"),
    ("one zone", zones([{"zones": ["node-0"], "amount": {"cpu": "8"}}]), "zone 0: 8 cpu"),
    ("no zone", zones([]), "nothing exclusive, so any zone will do"),
    ("zones together", zones(TOGETHER), "zone 0 and zone 1 together: 8Gi memory; zone 1: 2 cpu"),
    ("amounts", amounts({"cpu": "8", "memory": "1Gi"}), "8 cpu, 1Gi memory"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), table(WORDS))
def test_values_in_words(text: str, words: str) -> None:
    assert text == words


FORGED = "why\nok  team/web\u2028ok\n  a command"


def test_texts_steer_no_terminal_and_begin_no_line() -> None:
    text, file = writer()
    text.write("a\x1b[31mred\x9bgone")
    text.write("a\nb\u2028c")
    text.line("no  ", FORGED, indent=4)
    text.entry("no  ", FORGED, indent=4)

    assert file.getvalue().splitlines() == [
        "a\ufffd[31mred\ufffdgone",
        "a\ufffdb\ufffdc",
        *("no  why\ufffdok  team/web\ufffdok", "  a command"),
        *("no  why\ufffdok  team/web\ufffdok", "      a command"),
    ]


def test_a_terminal_of_no_columns_has_the_narrowest_width() -> None:
    text, file = writer(0)
    text.write("text")

    assert (file.getvalue(), text.width) == ("text\n", NARROWEST)


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error as a terminal; from a fixture, capturing output would replace it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    return written


def test_a_long_wait_has_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(lines, "PROGRESS_AFTER_SECONDS", 0.01)
    with lines.waiting("reading") as now:
        until = time.monotonic() + 5
        while "reading ..." not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        now("reading the last of it")

    assert "reading ..." in screen.getvalue()


@pytest.mark.parametrize("tty", [True, False], ids=["soon done", "in a pipe"])
def test_other_waits_have_no_notice(monkeypatch: pytest.MonkeyPatch, *, tty: bool) -> None:
    screen = terminal(monkeypatch)
    if not tty:
        monkeypatch.setattr(lines, "PROGRESS_AFTER_SECONDS", 0.0)
        monkeypatch.delenv("FORCE_COLOR")
    with lines.waiting("reading") as now:
        time.sleep(0.05)
        now("reading the last of it")

    assert "reading" not in screen.getvalue()
