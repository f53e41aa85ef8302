"""Log lines: their form, and that they neither fail nor leak."""

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime import logs
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table


def written(form: str, event: str, /, **fields: object) -> str:
    stream = io.StringIO()
    logs.to(stream, level="debug", form=form).info(event, **fields)
    return stream.getvalue()


def test_a_json_line_has_time_level_event_and_fields() -> None:
    line = json.loads(written("json", "review.denied", uid="u-1", nodes=3, patched=False))
    time = datetime.fromisoformat(line.pop("time"))
    assert datetime.now(UTC) - time < timedelta(seconds=10)
    assert line == {
        "level": "info", "event": "review.denied", "uid": "u-1", "nodes": 3, "patched": False,
    }  # fmt: skip


def test_a_text_line_is_for_people() -> None:
    line = written("text", "review.denied", uid="u-1", why="no zone", nodes=3, zones=["a", "b"])
    assert line[12:] == ' info    review.denied  uid=u-1 why="no zone" nodes=3 zones=["a","b"]\n'
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", line[:12])


RECORD = logging.makeLogRecord({"msg": "hm", "name": "aiohttp", "created": 0.5, "levelname": "WARNING"})
IN_JSON = (
    '{"time":"1970-01-01T00:00:00.500Z","level":"warning","event":"library",'
    '"logger":"aiohttp","message":"hm"}'
)
IN_TEXT = "00:00:00.500 warning library  logger=aiohttp message=hm"


@pytest.mark.parametrize(("form", "expected"), [("json", IN_JSON), ("text", IN_TEXT)])
def test_a_librarys_record_takes_the_same_form(form: str, expected: str) -> None:
    assert logs.FORMATTERS[form]().format(RECORD) == expected


LARGE_SHOWN = {**{str(key): 7 for key in range(100)}, "...": "(101 entries)"}


@pytest.mark.parametrize(("value", "shown"), table([
    ("nothing", None, None),
    ("a time", datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
    ("a path", Path("a/b"), "a/b"),
    ("bytes, never their content", b"secret", "<6 bytes>"),
    ("bytes inside", {"body": [bytearray(9)]}, {"body": ["<9 bytes>"]}),
    ("a long text", "x" * 1001, "x" * 1000 + "... (1001 characters)"),
    ("a text that just fits", "x" * 1000, "x" * 1000),
    ("a long list", [7] * 101, [7] * 100 + ["... (101 entries)"]),
    ("a list that just fits", [7] * 100, [7] * 100),
    ("a large object", {str(key): 7 for key in range(101)}, LARGE_SHOWN),
    ("an error", ValueError("no"), "ValueError: no"),
    ("a set", frozenset({1}), [1]),
    ("keys that are no text", {1: 2}, {"1": 2}),
    ("an integer beyond 64 bits", 2**70, 2**70),
    ("half a surrogate pair", "\ud800", "\ud800"),
]))  # fmt: skip
def test_values_are_shown_somehow(value: object, shown: object) -> None:
    assert json.loads(written("json", "e", value=value))["value"] == shown


@pytest.mark.parametrize("name", ["time", "level"])
def test_a_field_does_not_take_the_place_of_the_head(name: str) -> None:
    fields: dict[str, Any] = {name: "mine"}
    assert json.loads(written("json", "e", **fields))[name] != "mine"
    assert "mine" not in written("text", "e", **fields)


@given(st.text())
def test_what_a_peer_sends_never_begins_a_new_line(text: str) -> None:
    fields: dict[str, Any] = {"peer": text, "nested": {"x": [text]}}
    assert written("json", "e", **fields).count("\n") == 1
    # A terminal may take more than \n for an end of line.
    assert len(written("text", "e", **fields).splitlines()) == 1


@pytest.mark.parametrize("char", ["\n", "\r", "\v", "\x1c", "\x85", "\u2028", "\x1b"], ids=ascii)
def test_no_kind_of_line_end_or_escape_is_let_through(char: str) -> None:
    line = written("text", "e", peer=f"{char}[2J", nested=[char], n={char: 1})
    assert char not in line.removesuffix("\n")
    assert len(line.splitlines()) == 1


def test_a_failure_carries_its_traceback(journal: RecordedLog) -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        raise ValueError("bad\nnews")
    journal.log.failed("task.failed", error := caught.value, task="t")
    [line] = journal.lines()
    assert (line["level"], line["event"], line["task"]) == ("error", "task.failed", "t")
    assert line["error"] == "ValueError: bad\nnews"
    assert line["traceback"].startswith("Traceback (most recent call last):")
    assert line["traceback"].endswith("ValueError: bad\nnews")
    # In a text it is indented below its line.
    stream = io.StringIO()
    logs.to(stream, level="info", form="text").failed("task.failed", error)
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith('error   task.failed  error="ValueError: bad\\nnews"')
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(each.startswith("    ") for each in rest)


@pytest.mark.parametrize("level", LEVELS := ["debug", "info", "warning", "error"])
def test_from_a_level_up(level: str) -> None:
    stream = io.StringIO()
    log = logs.to(stream, level=level, form="json")
    for each in LEVELS:
        getattr(log, each)("e")
    lines = map(json.loads, stream.getvalue().splitlines())
    assert [line["level"] for line in lines] == LEVELS[LEVELS.index(level) :]


def test_bound_log_adds_its_fields(journal: RecordedLog) -> None:
    journal.log.bound(uid="u", step=1).bound(step=2).info("a", more=True)
    journal.log.info("b")
    first, second = journal.lines()
    assert (first["uid"], first["step"], first["more"]) == ("u", 2, True)
    assert set(second) == {"time", "level", "event"}


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    root.handlers.clear()
    yield root
    root.setLevel(before[0])
    root.handlers[:] = before[1]


@pytest.mark.usefixtures("root_logger")
def test_libraries_log_from_warnings_up(journal: RecordedLog) -> None:
    logs.adopt_libraries(journal.log)
    logging.getLogger("asyncio").info("chatter")
    logging.getLogger("asyncio").warning("slow callback of %s s", 3)
    [line] = journal.lines()
    assert (line["logger"], line["message"]) == ("asyncio", "slow callback of 3 s")


@pytest.mark.parametrize(("lines", "times", "expected"), table([
    # what             lines  when it happens                  what is logged, and how many were not before
    ("one a minute",   1,     [0, 1, 59.9, 60, 61, 300],       [(0, None), (3, 2), (5, 1)]),
    ("two a minute",   2,     [0, 1, 2, 3, 61, 62, 63],        [(0, None), (1, None), (4, 2), (5, None)]),
]))  # fmt: skip
def test_repeatable_lines_are_limited_with_a_count(
    journal: RecordedLog, lines: int, times: list[float], expected: list[tuple[int, int | None]]
) -> None:
    log = logs.QuietLog(journal.log, every=60, lines=lines, clock=iter(times).__next__)
    for number in range(len(times)):
        log.warning("request.slow", number=number)
    assert [(line["number"], line.get("unsaid")) for line in journal.lines()] == expected
    assert {line["level"] for line in journal.lines()} == {"warning"}


def test_one_event_does_not_silence_another(journal: RecordedLog) -> None:
    log = logs.QuietLog(journal.log, clock=lambda: 0.0)
    for event in ("request.slow", "request.unreadable", "request.slow"):
        log.info(event)
    assert [line["event"] for line in journal.lines()] == ["request.slow", "request.unreadable"]
