"""
Structured logs of a process.

One line per event, with a name for searches and alerts (`review.denied`) and fields instead of prose. Lines
are JSON for collectors or text for a terminal, always on standard error, so that standard output is free for
answers. A log line must neither fail nor leak: unusual values are converted, bytes (bodies, keys) are shown
only by their length, long texts and lists are cut, and no data of a peer can begin a new line.
"""

import json
import logging
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import TextIO

import orjson

LONGEST_TEXT = 1000
LONGEST_TRACEBACK = 8000
MOST_ENTRIES = 100
# For events that any peer can cause: a line a minute shows that they continue, and a metric how many.
QUIET_SECONDS = 60
# For events that tenants can cause with one pod after another, where each line is useful.
MANY_LINES = 100

_FIELDS = "numalign_fields"


@dataclass(frozen=True, slots=True)
class Log:
    """The destination of events; `fields` are on every line, except any named `time`, `level`, `event`."""

    logger: logging.Logger
    fields: Mapping[str, object] = field(default_factory=dict)

    def bound(self, **fields: object) -> "Log":
        """Return the same log with these fields on every line."""
        return Log(self.logger, {**self.fields, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        """Log what matters only for debugging."""
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happened."""
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what someone should look at soon."""
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log what is broken now."""
        self._emit(logging.ERROR, event, fields)

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Log what is broken now, with the error and where it was raised."""
        trace = (type(error), error, error.__traceback__)
        self._emit(logging.ERROR, event, fields, trace)

    def _emit(
        self,
        level: int,
        event: str,
        fields: Mapping[str, object],
        trace: tuple[type[BaseException], BaseException, TracebackType | None] | None = None,
    ) -> None:
        if self.logger.isEnabledFor(level):
            extra = {_FIELDS: {**self.fields, **fields}}
            self.logger.log(level, "%s", event, extra=extra, exc_info=trace)


@dataclass(slots=True)
class QuietLog:
    """Logs each event at most `lines` times in `every` seconds; `unsaid` counts those omitted before."""

    log: Log
    every: float = QUIET_SECONDS
    lines: int = 1
    clock: Callable[[], float] = time.monotonic
    # Since when, and how many lines since; and how many were omitted.
    _logged: dict[str, tuple[float, int]] = field(default_factory=dict)
    _omitted: Counter[str] = field(default_factory=Counter)

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happened, within the limit."""
        if self._is_time(event, fields):
            self.log.info(event, **fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what someone should look at soon, within the limit."""
        if self._is_time(event, fields):
            self.log.warning(event, **fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log what is broken now, within the limit."""
        if self._is_time(event, fields):
            self.log.error(event, **fields)

    def failed(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Log what is broken now, with the error and where it was raised, within the limit."""
        if self._is_time(event, fields):
            self.log.failed(event, error, **fields)

    def _is_time(self, event: str, fields: dict[str, object]) -> bool:
        """Return whether to log an event, and add how many lines were omitted before to its fields."""
        now = self.clock()
        since, count = self._logged.get(event, (now, 0))
        if now - since >= self.every:
            since, count = now, 0
        if count >= self.lines:
            self._omitted[event] += 1
            return False
        self._logged[event] = since, count + 1
        if omitted := self._omitted.pop(event, 0):
            fields["unsaid"] = omitted
        return True


def to(stream: TextIO, *, level: str, form: str) -> Log:
    """Return a log on `stream`, from `level` (`debug` to `error`) up, as `json` or `text`."""
    return _through(logging.StreamHandler(stream), level=level, form=form)


def by_lines(write: Callable[[bytes], None], *, level: str, form: str) -> Log:
    """Return a log as `to` does; `write` gets each line without its line break, and must not wait."""
    return _through(_LineHandler(write), level=level, form=form)


def _through(handler: logging.Handler, *, level: str, form: str) -> Log:
    handler.setFormatter(FORMATTERS[form]())
    logger = logging.Logger("numalign", level.upper())  # noqa: LOG001 a named one is global
    logger.addHandler(handler)
    return Log(logger)


def adopt_libraries(log: Log) -> None:
    """Format the logs of libraries, from warnings up, in the same way. Only for a program's start."""
    logging.basicConfig(handlers=log.logger.handlers, level=logging.WARNING, force=True)


class _LineHandler(logging.Handler):
    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self.format(record).encode(errors="backslashreplace"))


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record in one line; an error adds its text and its traceback as fields."""
        head, fields = _head_and_fields(record)
        return _json({**head, **fields})


class TextFormatter(logging.Formatter):
    """A line for people: clock, level, event, then `key=value`; a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record in one line, more only if it has a traceback."""
        head, fields = _head_and_fields(record)
        trace = textwrap.indent(str(fields.pop("traceback", "")), "    ")
        words = " ".join(f"{key}={_word(value)}" for key, value in fields.items())
        line = f"{head['time'][11:23]} {head['level']:<7} {head['event']}  {words}".rstrip()
        return f"{line}\n{trace}".rstrip()


FORMATTERS: Mapping[str, type[logging.Formatter]] = MappingProxyType(
    {"json": JsonFormatter, "text": TextFormatter}
)


def _head_and_fields(record: logging.LogRecord) -> tuple[dict[str, str], dict[str, object]]:
    """Return time, level and event of a line, and the fields; a library's message becomes a field."""
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    own: Mapping[str, object] | None = getattr(record, _FIELDS, None)
    event = "library" if own is None else record.getMessage()
    head = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower(), "event": event}
    shown = {"logger": record.name, "message": record.getMessage()} if own is None else own
    fields = {key: _safe(value) for key, value in shown.items() if key not in head}
    if record.exc_info and (error := record.exc_info[1]):
        trace = "".join(traceback.format_exception(error))
        fields |= {"error": _safe(error), "traceback": trace[-LONGEST_TRACEBACK:].rstrip()}
    return head, fields


def _safe(value: object) -> object:
    """Return a value for JSON, of bounded length, and without the content of bytes."""
    match value:
        case None | bool() | int() | float():
            return value
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case BaseException():
            return _cut(f"{type(value).__name__}: {value}")
        case Mapping():
            shown = {_cut(str(key)): _safe(inner) for key, inner in islice(value.items(), MOST_ENTRIES)}
            return shown if len(value) <= MOST_ENTRIES else {**shown, "...": f"({len(value)} entries)"}
        case list() | tuple() | set() | frozenset():
            listed = [_safe(inner) for inner in islice(value, MOST_ENTRIES)]
            return listed if len(value) <= MOST_ENTRIES else [*listed, f"... ({len(value)} entries)"]
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"


def _json(fields: Mapping[str, object]) -> str:
    try:
        return orjson.dumps(fields).decode()
    except orjson.JSONEncodeError:
        # Integers beyond 64 bits and lone surrogates: rare, and the line must not be lost.
        return json.dumps(fields)


def _word(value: object) -> str:
    """Return a value as one word of a text line, quoted only if necessary."""
    text = value if isinstance(value, str) else _json({"": value})[4:-1]
    plain = text is not value or (text and not set(text) & set(' "='))
    if plain and text.isprintable():
        return text
    return json.dumps(value, ensure_ascii=not text.isprintable())
