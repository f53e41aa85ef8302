"""A receiver of traces in this process: OTLP over HTTP, like a collector."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.worlds.web_files import sends, serving


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A received span; IDs are in hexadecimal digits, `parent` is empty for the first span of a trace."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    failed: bool
    attributes: Mapping[str, object]


@dataclass(slots=True)
class OtlpReceiver:
    """The received spans; `status` is the answer to senders."""

    endpoint: str = ""
    status: HTTPStatus = HTTPStatus.OK
    spans: list[ReceivedSpan] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.paths.add(handler.path)
        if self.status is HTTPStatus.OK:
            self.spans.extend(_spans(body))
        sends(b"", self.status)(handler)


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Run a receiver on a free port, inside a `with`."""
    receiver = OtlpReceiver()
    with serving(receiver.answer) as receiver.endpoint:
        yield receiver


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = str(_attributes(resource.resource.attributes)["service.name"])
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
            failed = span.status.code == span.status.STATUS_CODE_ERROR
            yield ReceivedSpan(service, span.name, span.kind, *ids, failed, _attributes(span.attributes))


def _attributes(found: Iterable[KeyValue]) -> dict[str, object]:
    return {each.key: _value(each.value) for each in found}


def _value(value: AnyValue) -> object:
    which = value.WhichOneof("value")
    found: object = getattr(value, which) if which else None
    return found
