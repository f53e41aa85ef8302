"""
Traces of calls and of writes, if configured.

When tracing is off, nothing of it is imported and a call costs one comparison. Only `otlp` uses the library;
other modules see a `Tracer`, or None. `current` returns the span of the call that is being answered, to add
attributes during the call: tasks started for a call belong to it too.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from prometheus_client import CollectorRegistry

from numalign.model.errors import BadInput, Mistake
from numalign.runtime.logs import Log

SpanAttributes = Mapping[str, str | bool | int]  # Cut when stored; none may be the value of an annotation.


class CallSpan(Protocol):
    """An unfinished call or write, to which attributes can be added."""

    def add(self, attributes: SpanAttributes) -> None:
        """Add attributes."""

    def end_with(self, status: int) -> None:
        """Set the HTTP status of the answer; from 500 on it is a failure."""


class Tracer(Protocol):
    """Creates spans. Without sampling none is recorded, and the span is None."""

    def called(self, name: str, headers: Mapping[str, str]) -> AbstractContextManager[CallSpan | None]:
        """Return the span of a received call, in the trace of its headers."""

    def writing(
        self, name: str, attributes: SpanAttributes, headers: dict[str, str]
    ) -> AbstractContextManager[CallSpan | None]:
        """Return the span of a sent call, and add the trace to its headers."""


CURRENT: ContextVar[CallSpan | None] = ContextVar("call_span", default=None)


def current() -> CallSpan | None:
    """Return the span of the current call; None without one, or if it is not recorded."""
    return CURRENT.get()


def exporting(
    endpoint: str, *, ratio: float, program: str, log: Log, registry: CollectorRegistry
) -> AbstractContextManager[Tracer]:
    """Return a tracer that sends spans to an OTLP receiver, inside a `with`.

    Of calls without a trace, and of writes outside any call, a share of `ratio` is sampled; of the others
    those that the caller samples. Raise `BadInput` if the library is not installed.
    """
    try:
        from numalign.runtime import otlp  # noqa: PLC0415  a tenth of a second, and an extra of the installation
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: pip install 'numalign[tracing]'"
        raise BadInput([Mistake("--otlp-endpoint", message)]) from error
    return otlp.exporting(endpoint, ratio=ratio, program=program, log=log, registry=registry)
