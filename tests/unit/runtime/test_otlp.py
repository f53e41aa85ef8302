"""Traces on the wire: a real receiver, and what it is told."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from numalign.model.errors import BadInput
from numalign.runtime import otlp, tracing
from tests.worlds.log import RecordedLog
from tests.worlds.otlp import OtlpReceiver, receiving

TRACEPARENT = "traceparent"
"""The header of a trace (W3C Trace Context)."""

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {TRACEPARENT: f"00-{TRACE}-{PARENT}-01"}
NOT_SAMPLED = {TRACEPARENT: f"00-{TRACE}-{PARENT}-00"}
SERVER, CLIENT = 2, 3


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def exporting(
    receiver: OtlpReceiver, journal: RecordedLog, registry: CollectorRegistry
) -> Callable[..., Any]:
    def made(ratio: float = 1.0, endpoint: str = "") -> Any:  # noqa: ANN401  a context manager
        return tracing.exporting(
            endpoint or receiver.endpoint, ratio=ratio, program="numalign-test", log=journal.log,
            registry=registry
        )  # fmt: skip

    return made


def test_a_call_is_a_span_of_the_callers_trace(
    receiver: OtlpReceiver, exporting: Callable[..., Any], registry: CollectorRegistry
) -> None:
    with exporting() as tracer, tracer.called("POST /validate", SAMPLED) as span:
        span.add({"k8s.pod.name": "web", "numalign.review.dry_run": True})
        span.end_with(200)
    [found] = receiver.spans
    assert (found.name, found.kind, found.trace, found.parent) == ("POST /validate", SERVER, TRACE, PARENT)
    own = {"k8s.pod.name": "web", "numalign.review.dry_run": True}
    assert found.attributes == {**own, "http.response.status_code": 200}
    counts = [registry.get_sample_value("numalign_spans_total", {"result": fate}) for fate in otlp.SpanResult]
    assert counts == [1, 1, 0]
    assert (found.service, found.failed, receiver.paths) == ("numalign-test", False, {"/v1/traces"})


def test_write_within_a_call_joins_its_trace(receiver: OtlpReceiver, exporting: Callable[..., Any]) -> None:
    headers: dict[str, str] = {}
    with (
        exporting() as tracer,
        tracer.called("POST /bind", SAMPLED),
        tracer.writing("POST pods/binding", {"numalign.object": "pod a/b"}, headers),
    ):
        pass
    [write], [call] = receiver.named("POST pods/binding"), receiver.named("POST /bind")
    assert (write.kind, write.trace, write.parent) == (CLIENT, TRACE, call.id)
    assert headers == {TRACEPARENT: f"00-{TRACE}-{write.id}-01"}


@pytest.mark.parametrize(
    ("ratio", "headers", "spans"),
    [(1.0, {}, 1), (0.0, {}, 0), (0.0, SAMPLED, 1), (1.0, NOT_SAMPLED, 0), (1.0, {TRACEPARENT: "00-x"}, 1)],
)
def test_caller_or_the_ratio_decides_sampling(
    receiver: OtlpReceiver, exporting: Callable[..., Any], ratio: float, headers: dict[str, str], spans: int
) -> None:
    passed_on: dict[str, str] = {}
    with exporting(ratio) as tracer, tracer.called("a", headers) as span:
        assert (span is not None, tracing.current() is not None) == (bool(spans), bool(spans))
        with tracer.writing("b", {}, passed_on):
            pass
    # What is not sampled is passed on as such.
    assert int(passed_on[TRACEPARENT][-2:], 16) & 1 == spans
    assert (TRACE in passed_on[TRACEPARENT]) is (TRACE in str(headers))
    assert len(receiver.spans) == 2 * spans
    assert tracing.current() is None


def test_failure_is_traced_without_its_text(receiver: OtlpReceiver, exporting: Callable[..., Any]) -> None:
    with exporting() as tracer:
        with pytest.raises(ValueError, match="secret"), tracer.called("raised", {}):
            raise ValueError("secret")
        with tracer.called("answered", {}) as span:
            span.end_with(500)
    assert [span.failed for span in receiver.spans] == [True, True]
    assert "secret" not in str(receiver.spans)


def test_texts_and_their_number_are_bounded(receiver: OtlpReceiver, exporting: Callable[..., Any]) -> None:
    with exporting() as tracer, tracer.called("a", {}) as span:
        span.add({f"k{number}": "x" * 100_000 for number in range(1000)})
    [found] = receiver.spans
    assert len(found.attributes) == otlp.MOST_ATTRIBUTES
    assert {len(str(value)) for value in found.attributes.values()} == {otlp.LONGEST_TEXT}


def test_refusing_receiver_is_counted(
    receiver: OtlpReceiver, exporting: Callable[..., Any], journal: RecordedLog, registry: CollectorRegistry
) -> None:
    receiver.status = HTTPStatus.BAD_REQUEST
    with exporting() as tracer, tracer.called("a", {}):
        pass
    assert registry.get_sample_value("numalign_spans_total", {"result": "failed"}) == 1
    [said] = journal.of("tracing.failed")
    assert (said["level"], said["spans"]) == ("warning", 1)


def test_missing_library_is_named(exporting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "numalign.runtime.otlp")
    monkeypatch.delattr("numalign.runtime.otlp")
    with pytest.raises(BadInput, match=r"--otlp-endpoint: opentelemetry.* pip install 'numalign\[tracing\]'"):
        exporting()


LOADED = """
import importlib, sys
for program in ("webhook", "scorer", "controller"):
    importlib.import_module(f"{program}.__main__")
    print(program, *sorted({"opentelemetry", "requests"} & sys.modules.keys()))
"""


@pytest.mark.full
def test_a_program_that_traces_nothing_loads_none_of_it() -> None:
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)  # noqa: S603  our own
    assert found.stdout.split() == ["webhook", "scorer", "controller"]
