"""What the running programs tell a receiver of traces, and that tenants' annotations are not in it."""

from http import HTTPStatus
from pathlib import Path

import orjson
import pytest

from tests.system.attack import objects
from tests.worlds.otlp import OtlpReceiver, receiving
from tools.clusters import programs
from tools.clusters.http_calls import JSON, Connection, Door, once, request
from tools.clusters.processes import until
from tools.clusters.programs import Running

TRACEPARENT = "traceparent"
"""The header of a trace (W3C Trace Context)."""

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = {"Content-Type": JSON, TRACEPARENT: f"00-{TRACE}-b7ad6b7169203331-01"}
SECRET = "xyzzy"  # noqa: S105  a word to look for
POD = objects.pod("web", placement=SECRET)
BIND = {"Content-Type": JSON, TRACEPARENT: f"00-{TRACE[::-1]}-b7ad6b7169203331-01"}

# Three programs are started, on a machine that may be busy.
pytestmark = [pytest.mark.full, pytest.mark.timeout(120)]


async def test_calls_and_writes_join_the_traces_of_callers(tmp_path: Path) -> None:
    with receiving() as receiver:
        async with programs.site(tmp_path) as here:
            nodes = objects.nodes(2)
            names = objects.names(nodes)
            api = await here.api_server([*nodes, POD])
            flags = ("--kubeconfig", str(api.kubeconfig), "--otlp-endpoint", receiver.endpoint)
            webhook = await here.webhook(*flags, "--trace-ratio", "0")
            scorer = await here.scorer(*flags, "--trace-ratio", "0")
            controller = await here.controller(*flags, "--trace-ratio", "1")
            await called(webhook.door, "/validate", objects.review(POD), HEADERS)
            await called(webhook.door, "/validate", objects.review(POD), {"Content-Type": JSON})
            await called(scorer.door, "/filter", objects.filtering(POD, names), HEADERS)
            stored = orjson.loads((await once(api.door, "GET", objects.path(POD))).body)
            await called(scorer.door, "/bind", objects.binding(stored, names[0]), BIND)
            for program, span in (
                (webhook, "POST /validate"),
                (scorer, "POST pods/binding"),
                (controller, "PATCH nodes"),
            ):
                await received(receiver, program, span)

    [review] = receiver.named("POST /validate")
    assert (review.service, review.trace, review.failed) == ("numalign-webhook", TRACE, False)
    expected = {"numalign.decision": "admitted", "k8s.pod.name": "web", "http.route": "/validate"}
    assert review.attributes.items() >= expected.items()
    [filtered], [bind], [binding] = map(receiver.named, ("POST /filter", "POST /bind", "POST pods/binding"))
    assert filtered.attributes["k8s.namespace.name"] == objects.TEAM
    assert (bind.attributes["k8s.node.name"], bind.trace) == (names[0], TRACE[::-1])
    assert (binding.service, binding.trace, binding.parent) == ("numalign-scorer", TRACE[::-1], bind.id)
    assert {span.service for span in receiver.named("PATCH nodes")} == {"numalign-controller"}
    # A lease is renewed every two seconds, which nobody needs to see.
    assert [span for span in receiver.spans if "leases" in span.name] == []
    assert SECRET not in str(receiver.spans)


async def called(door: Door, path: str, body: bytes, headers: dict[str, str]) -> None:
    connection = await Connection.open(door)
    connection.send(request("POST", path, body, headers))
    answer = await connection.answer()
    assert answer.status == HTTPStatus.OK, answer.body
    connection.close()


async def received(receiver: OtlpReceiver, program: Running, span: str) -> None:
    async def seen() -> bool:
        return bool(receiver.named(span))

    await until(seen, what=span, child=program.child)
