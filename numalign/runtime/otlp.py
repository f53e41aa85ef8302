"""
OpenTelemetry spans, sent over OTLP/HTTP. The only module that uses the library.

Spans wait in a queue of the library, from which its own thread sends them; excess is dropped, so that no call
ever waits for a receiver. No provider is made global, and the library's log messages are replaced by one
event.
"""

import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from http import HTTPStatus

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter

from numalign.runtime import about
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.tracing import CURRENT, CallSpan, SpanAttributes

MOST_WAITING = 2048  # The limit of queued spans; with all attributes a span takes a few KB.
TOGETHER = 512  # Spans that are sent at once.
CLOSING_SECONDS = 2.0  # The time limit for waiting spans when the program ends.
LONGEST_TEXT = 256  # The limit of characters in an attribute.
MOST_ATTRIBUTES = 24
_PROPAGATOR = TraceContextTextMapPropagator()


class SpanResult(StrEnum):
    """The outcome of a sampled span; one that only ended is waiting or was dropped."""

    ENDED = "ended"
    EXPORTED = "exported"
    FAILED = "failed"


class _Recorded:
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def add(self, attributes: SpanAttributes) -> None:
        self._span.set_attributes(attributes)

    def end_with(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._span.set_status(Status(StatusCode.ERROR))


class OtlpTracer:
    """Creates spans of a provider, and counts the recorded ones."""

    def __init__(self, provider: TracerProvider, spans: Counter) -> None:
        # Errors may repeat what a tenant wrote; the log has them.
        self._span = partial(
            provider.get_tracer("numalign", about.version()).start_as_current_span,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._ended = spans.labels(SpanResult.ENDED)

    @contextmanager
    def called(self, name: str, headers: Mapping[str, str]) -> Iterator[CallSpan | None]:
        """Provide the span of a received call, in the trace of its headers."""
        context = _PROPAGATOR.extract(headers)
        with self._span(name, context, SpanKind.SERVER) as span, self._recorded(span) as recorded:
            token = CURRENT.set(recorded)
            try:
                yield recorded
            finally:
                CURRENT.reset(token)

    @contextmanager
    def writing(
        self, name: str, attributes: SpanAttributes, headers: dict[str, str]
    ) -> Iterator[CallSpan | None]:
        """Provide the span of a sent call, and add the trace to its headers."""
        started = self._span(name, kind=SpanKind.CLIENT, attributes=attributes)
        with started as span, self._recorded(span) as recorded:
            _PROPAGATOR.inject(headers)
            yield recorded

    @contextmanager
    def _recorded(self, span: Span) -> Iterator[CallSpan | None]:
        if not span.is_recording():
            yield None
            return
        try:
            yield _Recorded(span)
        except BaseException:
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            self._ended.inc()


class CountingExporter(SpanExporter):
    """Sends spans by another exporter, and counts and logs the outcomes."""

    def __init__(self, exporter: SpanExporter, spans: Counter, log: Log) -> None:
        self._exporter, self._spans, self._quiet_log = exporter, spans, QuietLog(log)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; called by the thread of the queue."""
        result = self._exporter.export(spans)
        good = result is SpanExportResult.SUCCESS
        self._spans.labels(SpanResult.EXPORTED if good else SpanResult.FAILED).inc(len(spans))
        if not good:
            self._quiet_log.warning("tracing.failed", spans=len(spans))
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()


@contextmanager
def exporting(
    endpoint: str, *, ratio: float, program: str, log: Log, registry: CollectorRegistry
) -> Iterator[OtlpTracer]:
    """Provide the tracer of `tracing.exporting`; at the end send waiting spans, for at most two seconds."""
    spans = Counter(f"{PREFIX}spans", "Sampled spans, by outcome.", ["result"], registry=registry)
    for result in SpanResult:
        spans.labels(result)
    # `tracing.failed` replaces its messages about a receiver.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    sender = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=5.0)
    service = {SERVICE_NAME: program, SERVICE_VERSION: about.version()}
    provider = TracerProvider(
        ParentBased(TraceIdRatioBased(ratio)),
        Resource.create({**service, SERVICE_INSTANCE_ID: socket.gethostname()}),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_span_attributes=MOST_ATTRIBUTES, max_span_attribute_length=LONGEST_TEXT),
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            CountingExporter(sender, spans, log),
            max_queue_size=MOST_WAITING,
            schedule_delay_millis=2000,
            max_export_batch_size=TOGETHER,
        )
    )
    try:
        yield OtlpTracer(provider, spans)
    finally:
        closing = threading.Thread(target=provider.shutdown, name="closing-spans", daemon=True)
        closing.start()
        closing.join(CLOSING_SECONDS)
