"""Lines that nobody waits for, on real files and pipes."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from errno import ENOENT, ENXIO
from os import strerror
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from numalign.model.errors import BadInput
from numalign.runtime.line_writer import MOST_WAITING, LineResult, LineWriter, line_writer, standard_error
from tests.worlds.log import RecordedLog


class Lines:
    """Writers to files of a folder, their log, and how many lines came to what."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.registry, self.file = RecordedLog(), CollectorRegistry(), folder / "audit.log"
        self.counter = Counter("lines", "Of a test.", ["result"], registry=self.registry)

    def writing(self, path: Path | None = None, flag: str = "--x") -> AbstractContextManager[LineWriter]:
        return line_writer(str(path or self.file), flag=flag, lines=self.counter, log=self.journal.log)

    def writer(self) -> LineWriter:
        return LineWriter(None, lines=self.counter, log=self.journal.log)

    def count(self, result: LineResult) -> float:
        return self.registry.get_sample_value("lines_total", {"result": result}) or 0


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path)


def soon(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_lines_are_appended_in_order(lines: Lines) -> None:
    lines.file.write_text("before\n")
    with lines.writing() as writer:
        for number in range(500):
            writer.write(str(number).encode())
    assert lines.file.read_text().splitlines() == ["before", *map(str, range(500))]
    assert [lines.count(result) for result in LineResult] == [500, 0, 0]


def test_a_file_that_was_moved_away_is_made_anew(lines: Lines) -> None:
    rotated = lines.file.with_suffix(".1")
    with lines.writing() as writer:
        # It is not for everybody.
        assert lines.file.stat().st_mode & 0o007 == 0
        writer.write(b"first")
        soon(lambda: lines.count(LineResult.WRITTEN) == 1)
        lines.file.rename(rotated)
        writer.write(b"second")
        soon(lambda: lines.count(LineResult.WRITTEN) == 2)
        lines.file.unlink()
        writer.write(b"third")
    assert (rotated.read_text(), lines.file.read_text()) == ("first\n", "third\n")


def test_unwritable_path_is_refused_with_its_flag(lines: Lines) -> None:
    folder = lines.file.parent
    # A pipe without a reader.
    os.mkfifo(folder / "pipe")
    for path, why in (
        (folder, ""),
        (folder / "nowhere" / "x", ""),
        (folder / "pipe", f": {strerror(ENXIO)}"),
    ):
        with (
            pytest.raises(BadInput, match=f"--audit-log {path}: cannot be written{why}"),
            lines.writing(path, "--audit-log"),
        ):
            pass


def test_lost_lines_are_counted_and_logged_each_minute(lines: Lines) -> None:
    folder = lines.file.parent / "folder"
    folder.mkdir()
    file = folder / "audit.log"
    with lines.writing(file) as writer:
        file.unlink()
        folder.rmdir()
        for number in (1, 2):
            writer.write(b"lost")
            soon(lambda number=number: lines.count(LineResult.FAILED) == number)  # type: ignore[misc]
        folder.mkdir()
        writer.write(b"kept")
        soon(lambda: lines.count(LineResult.WRITTEN) == 1)
    assert file.read_text() == "kept\n"
    [line] = lines.journal.of("audit.failed")
    assert (line["level"], strerror(ENOENT) in line["error"]) == ("error", True)


def test_full_pipe_delays_no_caller(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def never_ends(_file: int, written: bytes) -> int:
        released.wait(30)
        return len(written)

    monkeypatch.setattr(os, "write", never_ends)
    writer = lines.writer()
    for _ in range(3 * MOST_WAITING):
        writer.write(b"line")
    assert 2 * MOST_WAITING - 100 <= lines.count(LineResult.DROPPED) <= 2 * MOST_WAITING
    # Nor does it delay the end of the program.
    monkeypatch.setattr("numalign.runtime.line_writer.CLOSING_SECONDS", 0.05)
    writer.close()
    released.set()
    soon(lambda: lines.count(LineResult.WRITTEN) + lines.count(LineResult.DROPPED) == 3 * MOST_WAITING)


def test_standard_error_has_the_lines(registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("numalign.runtime.line_writer._STDERR_FD", writing)
    with standard_error(registry) as writer:
        writer.write(b"line")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"line\n"
    assert registry.get_sample_value("numalign_log_lines_total", {"result": LineResult.WRITTEN}) == 1


def test_of_a_full_pipe_only_whole_lines_are_missing(lines: Lines) -> None:
    pipe = lines.file.parent / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with lines.writing(pipe) as writer:
        for number in range(MOST_WAITING):
            writer.write(str(number % 10).encode() * 1000)
    whole = os.read(reader, 2**20).splitlines()
    os.close(reader)
    assert 0 < len(whole) < MOST_WAITING
    assert {(len(line), len(set(line))) for line in whole} == {(1000, 1)}
    assert len(lines.journal.of("audit.failed")) == 1


def test_line_after_a_cut_one_is_whole(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    disk: list[int | OSError] = [3, OSError(28, "No space left on device")]

    def short_of_space(file: int, text: bytes) -> int:
        room = disk.pop(0) if disk else len(text)
        if isinstance(room, OSError):
            raise room
        return write(file, text[:room])

    monkeypatch.setattr(os, "write", short_of_space)
    with lines.writing() as writer:
        for text in (b"first", b"second", b"third"):
            writer.write(text)
    assert lines.file.read_text() == "fir\nsecond\nthird\n"
