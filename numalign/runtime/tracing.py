"""
Traces of calls and of writes, where a platform asks for them.

Off, nothing of it is imported and a call pays for one comparison. The library stands in `otlp` alone; what
others know is a `Tracer`, or None. The span of the call that is being answered is found by `current`, for
whoever learns on the way what the call is about: tasks begun for a call are about it too.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from prometheus_client import CollectorRegistry

from numalign.model.errors import BadInput, Mistake
from numalign.runtime.logs import Log

SpanAttributes = Mapping[str, str | bool | int]
"""What is told of a span. Texts are cut by whoever keeps them; none may be a value of an annotation."""

TRACEPARENT = "traceparent"
"""The header by which a trace is passed on (W3C Trace Context)."""


class CallSpan(Protocol):
    """A call or a write that lasts, of which more can be told."""

    def add(self, attributes: SpanAttributes) -> None:
        """Tell more."""

    def end_with(self, status: int) -> None:
        """Tell the status that HTTP answered with; from 500 on it is a failure."""


class Tracer(Protocol):
    """Makes spans. None is recorded of what is not sampled, and then no span is given."""

    def called(self, name: str, headers: Mapping[str, str]) -> AbstractContextManager[CallSpan | None]:
        """Return a call by others, as part of the trace that its headers name."""

    def writing(
        self, name: str, attributes: SpanAttributes, headers: dict[str, str]
    ) -> AbstractContextManager[CallSpan | None]:
        """Return a call of ours, whose headers are told the trace."""


_CURRENT: ContextVar[CallSpan | None] = ContextVar("call_span", default=None)


def current() -> CallSpan | None:
    """Return the span of the call that is being answered; None without one, and where it is not recorded."""
    return _CURRENT.get()


@contextmanager
def is_current(span: CallSpan | None) -> Iterator[None]:
    """What `current` gives inside the `with`."""
    token = _CURRENT.set(span)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def exporting(
    endpoint: str, *, ratio: float, program: str, log: Log, registry: CollectorRegistry
) -> AbstractContextManager[Tracer]:
    """Return a tracer whose spans are sent to an OTLP receiver, inside a `with`.

    Of calls that come without a trace, and of writes outside any call, a share of `ratio` is sampled; of the
    others those that the caller samples. Raises `BadInput` where the library is not installed.
    """
    try:
        from numalign.runtime import otlp  # noqa: PLC0415  a tenth of a second, and an extra of the installation
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: pip install 'numalign[tracing]'"
        raise BadInput([Mistake("--otlp-endpoint", message)]) from error
    return otlp.exporting(endpoint, ratio=ratio, program=program, log=log, registry=registry)
