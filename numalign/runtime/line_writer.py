"""
A writer of lines to a file or a pipe that never blocks its callers.

A disk or the reader of a pipe may block, and the code that answers calls must not block with it. So a thread
writes; lines beyond its queue are dropped and counted. A file that was moved away or deleted is created again
before the next lines, as logrotate and similar tools expect: no signal is needed.
"""

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from numalign.model.errors import BadInput, Mistake
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX

STDOUT = "-"  # In place of a path: standard output.
MOST_WAITING = 1024  # The limit of queued lines; at 4 KiB a line that is 4 MiB.
TOGETHER = 64  # Lines that are written at once.
CLOSING_SECONDS = 2.0  # The time limit for waiting lines when the program ends.

# A full pipe, or one without a reader, is an error, not a reason to wait.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o640
_STDOUT_FD, _STDERR_FD = 1, 2


class LineResult(StrEnum):
    """The outcome of a line."""

    WRITTEN = "written"
    DROPPED = "dropped"
    FAILED = "failed"


class LineWriter:
    """Writes lines to the file at a path, or to the open file `standard`; counts and logs lost ones."""

    def __init__(
        self, path: Path | None, *, lines: Counter, log: Log | None, standard: int = _STDOUT_FD
    ) -> None:
        self._path, self._standard, self._lines = path, standard, lines
        self._quiet_log = QuietLog(log) if log else None
        self._queue = queue.Queue[bytes | None](MOST_WAITING)
        self._cut_off = False
        self._file = self._opened()
        for result in LineResult:
            lines.labels(result)
        # A daemon: a write that never ends does not keep the process from ending.
        self._thread = threading.Thread(target=self._write_all, name="line-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line, without a line break; never waits."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._lines.labels(LineResult.DROPPED).inc()

    def close(self) -> None:
        """Write waiting lines, for a few seconds at most, and close the file."""
        with suppress(queue.Full):
            self._queue.put(None, timeout=CLOSING_SECONDS)
        self._thread.join(CLOSING_SECONDS)
        if self._path and not self._thread.is_alive():
            os.close(self._file)

    def _opened(self) -> int:
        return os.open(self._path, _FLAGS, _MODE) if self._path else self._standard

    def _write_all(self) -> None:
        lines: list[bytes | None] = [b""]
        while lines[-1] is not None:
            # At least one line, and others that are there already; None is the end.
            lines = [self._queue.get()]
            with suppress(queue.Empty):
                while lines[-1] is not None and len(lines) < TOGETHER:
                    lines.append(self._queue.get_nowait())
            self._write([line for line in lines if line is not None])

    def _write(self, lines: Sequence[bytes]) -> None:
        """Write lines one by one: a pipe takes a short one as a whole or not at all (pipe(7), PIPE_BUF)."""
        try:
            self._reopen_if_moved()
        except OSError as error:
            self._failed(error, len(lines))
            return
        for line in lines:
            # On a new line if the last was truncated, as on a full disk.
            text, done = b"\n" * self._cut_off + line + b"\n", 0
            try:
                while done < len(text):
                    done += os.write(self._file, text[done:])
            except OSError as error:
                self._failed(error, 1)
            else:
                self._lines.labels(LineResult.WRITTEN).inc()
            self._cut_off = self._cut_off if done == 0 else done < len(text)

    def _failed(self, error: OSError, count: int) -> None:
        self._lines.labels(LineResult.FAILED).inc(count)
        if self._quiet_log:
            self._quiet_log.error("audit.failed", error=error)

    def _reopen_if_moved(self) -> None:
        if not self._path:
            return
        try:
            moved = not os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            moved = True
        if moved:
            old, self._file = self._file, self._opened()
            self._cut_off = False
            os.close(old)


@contextmanager
def line_writer(target: str, *, flag: str, lines: Counter, log: Log) -> Iterator[LineWriter]:
    """Provide a writer to a path, or to standard output for `-`; raise `BadInput` if it cannot be opened."""
    try:
        writer = LineWriter(None if target == STDOUT else Path(target), lines=lines, log=log)
    except OSError as error:
        raise BadInput([Mistake(f"{flag} {target}", f"cannot be written: {error.strerror}")]) from error
    with closing(writer):
        yield writer


@contextmanager
def standard_error(registry: CollectorRegistry) -> Iterator[LineWriter]:
    """Provide the writer of a program's log to standard error; closed at the end of the block."""
    lines = Counter(f"{PREFIX}log_lines", "Lines of the log, by result.", ["result"], registry=registry)
    with closing(LineWriter(None, lines=lines, log=None, standard=_STDERR_FD)) as writer:
        yield writer
