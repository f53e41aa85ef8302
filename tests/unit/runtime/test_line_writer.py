"""Lines that nobody waits for, on real files and pipes."""

import json
import os
import threading
import time
from collections.abc import Callable
from errno import ENOENT, ENXIO
from os import strerror
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from numalign.model.errors import BadInput
from numalign.runtime import logs
from numalign.runtime.line_writer import MOST_WAITING, LineResult, LineWriter, line_writer, standard_error
from tests.worlds.log import RecordedLog


@pytest.fixture
def lines(registry: CollectorRegistry) -> Counter:
    return Counter("lines", "Of a test.", ["result"], registry=registry)


@pytest.fixture
def count(registry: CollectorRegistry, lines: Counter) -> Callable[[LineResult], float]:
    del lines
    return lambda result: registry.get_sample_value("lines_total", {"result": result}) or 0


def soon(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_lines_are_appended_in_order(
    tmp_path: Path, lines: Counter, told: RecordedLog, count: Callable[[LineResult], float]
) -> None:
    file = tmp_path / "audit.log"
    file.write_text("before\n")
    with line_writer(str(file), flag="--x", lines=lines, log=told.log) as writer:
        for number in range(500):
            writer.write(str(number).encode())

    assert file.read_text().splitlines() == ["before", *map(str, range(500))]
    assert [count(result) for result in LineResult] == [500, 0, 0]


def test_a_file_that_is_made_is_not_for_everybody(tmp_path: Path, lines: Counter, told: RecordedLog) -> None:
    with line_writer(str(tmp_path / "audit.log"), flag="--x", lines=lines, log=told.log):
        assert (tmp_path / "audit.log").stat().st_mode & 0o007 == 0


def test_a_file_that_was_moved_away_is_made_anew(
    tmp_path: Path, lines: Counter, told: RecordedLog, count: Callable[[LineResult], float]
) -> None:
    file, rotated = tmp_path / "audit.log", tmp_path / "audit.log.1"
    with line_writer(str(file), flag="--x", lines=lines, log=told.log) as writer:
        writer.write(b"first")
        soon(lambda: count(LineResult.WRITTEN) == 1)
        file.rename(rotated)
        writer.write(b"second")
        soon(lambda: count(LineResult.WRITTEN) == 2)
        file.unlink()
        writer.write(b"third")

    assert (rotated.read_text(), file.read_text()) == ("first\n", "third\n")


def test_unwritable_path_is_refused_with_its_flag(tmp_path: Path, lines: Counter, told: RecordedLog) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "audit.log"):
        with (
            pytest.raises(BadInput, match=f"--audit-log {path}: cannot be written"),
            line_writer(str(path), flag="--audit-log", lines=lines, log=told.log),
        ):
            pass


def test_pipe_without_a_reader_is_refused(tmp_path: Path, lines: Counter, told: RecordedLog) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(BadInput, match=f"cannot be written: {strerror(ENXIO)}"),
        line_writer(str(tmp_path / "pipe"), flag="--x", lines=lines, log=told.log),
    ):
        pass


def test_lost_lines_are_counted_and_logged_each_minute(
    tmp_path: Path, lines: Counter, told: RecordedLog, count: Callable[[LineResult], float]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "audit.log"
    with line_writer(str(file), flag="--x", lines=lines, log=told.log) as writer:
        file.unlink()
        folder.rmdir()
        for number in (1, 2):
            writer.write(b"lost")
            soon(lambda number=number: count(LineResult.FAILED) == number)  # type: ignore[misc]
        folder.mkdir()
        writer.write(b"kept")
        soon(lambda: count(LineResult.WRITTEN) == 1)

    assert file.read_text() == "kept\n"
    [said] = told.of("audit.failed")
    assert (said["level"], strerror(ENOENT) in said["error"]) == ("error", True)


def test_full_pipe_delays_no_caller(
    lines: Counter, told: RecordedLog, count: Callable[[LineResult], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def never_ends(_file: int, written: bytes) -> int:
        released.wait(30)
        return len(written)

    monkeypatch.setattr(os, "write", never_ends)
    writer = LineWriter(None, lines=lines, log=told.log)
    for _ in range(3 * MOST_WAITING):
        writer.write(b"line")

    assert 2 * MOST_WAITING - 100 <= count(LineResult.DROPPED) <= 2 * MOST_WAITING
    released.set()
    writer.close()
    assert count(LineResult.WRITTEN) + count(LineResult.DROPPED) == 3 * MOST_WAITING


def test_full_standard_error_delays_no_caller(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("numalign.runtime.line_writer._STDERR_FD", writing)
    with os.fdopen(reading, "rb") as pipe:
        reader, read = threading.Thread(target=lambda: read.extend(pipe)), list[bytes]()
        with standard_error(registry) as writer:
            log = logs.by_lines(writer.write, level="info", form="json")
            for number in range(3 * MOST_WAITING):
                log.info("review.denied", number=number, why="x" * 200)
            reader.start()
        os.close(writing)
        reader.join()

    dropped = registry.get_sample_value("numalign_log_lines_total", {"result": LineResult.DROPPED})
    numbers = [json.loads(line)["number"] for line in read]
    assert dropped == 3 * MOST_WAITING - len(numbers) > MOST_WAITING
    assert numbers == sorted(set(numbers))


def test_of_a_full_pipe_only_whole_lines_are_missing(
    tmp_path: Path, lines: Counter, told: RecordedLog
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with line_writer(str(tmp_path / "pipe"), flag="--x", lines=lines, log=told.log) as writer:
        for number in range(MOST_WAITING):
            writer.write(str(number % 10).encode() * 1000)
    taken = os.read(reader, 2**20)
    os.close(reader)

    whole = taken.splitlines()
    assert 0 < len(whole) < MOST_WAITING
    assert {len(line) for line in whole} == {1000}
    assert all(len(set(line)) == 1 for line in whole)
    assert len(told.of("audit.failed")) == 1


def test_line_after_a_cut_one_is_whole(
    tmp_path: Path, lines: Counter, told: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    disk: list[int | OSError] = [3, OSError(28, "No space left on device")]

    def short_of_space(file: int, text: bytes) -> int:
        room = disk.pop(0) if disk else len(text)
        if isinstance(room, OSError):
            raise room
        return write(file, text[:room])

    monkeypatch.setattr(os, "write", short_of_space)
    with line_writer(str(tmp_path / "audit.log"), flag="--x", lines=lines, log=told.log) as writer:
        writer.write(b"first")
        writer.write(b"second")
        writer.write(b"third")

    assert (tmp_path / "audit.log").read_text() == "fir\nsecond\nthird\n"


def test_endless_write_does_not_block_exit(
    lines: Counter, told: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr("numalign.runtime.line_writer.CLOSING_SECONDS", 0.05)
    monkeypatch.setattr(os, "write", lambda _file, written: released.wait(30) and len(written))
    writer = LineWriter(None, lines=lines, log=told.log)
    writer.write(b"line")
    writer.close()
    released.set()
