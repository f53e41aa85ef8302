"""A receiver of traces in this process: OTLP over HTTP, like a collector."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tools.clusters.http_calls import LOOPBACK


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

    port: int
    status: HTTPStatus = HTTPStatus.OK
    spans: list[ReceivedSpan] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Run a receiver on a free port, inside a `with`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.paths.add(self.path)
            if receiver.status is HTTPStatus.OK:
                receiver.spans.extend(_spans(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002  as the library calls it
            """Log nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    receiver = OtlpReceiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {each.key: _value(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    str(about["service.name"]),
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    {each.key: _value(each.value) for each in span.attributes},
                )


def _value(value: AnyValue) -> object:
    which = value.WhichOneof("value")
    found: object = getattr(value, which) if which else None
    return found
