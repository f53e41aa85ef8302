"""Reviews in the traces of a real API server, and refusals in its audit log and in ours."""

import json
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.eventually import eventually
from tools.clusters.api_requests import create, gpus, pod
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.otlp import OtlpReceiver, ReceivedSpan

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTENT = {"numalign.io/policy": "single-numa-node", "example.com/secret": "xyzzy"}


async def spans_of(receiver: OtlpReceiver, name: str) -> list[ReceivedSpan]:
    return [span for span in receiver.spans if span.attributes.get("k8s.pod.name") == name]


async def test_both_reviews_join_the_trace_of_a_creation(api: ApiClient, receiver: OtlpReceiver) -> None:
    answer = await create(api, pod("traced", asks={"cpu": "2", "memory": "1Gi"}, annotations=INTENT))
    assert answer.code == HTTPStatus.CREATED, answer.body
    look = partial(spans_of, receiver, "traced")
    spans = await eventually(look, lambda seen: len(seen) > 1, "the spans of both reviews had come")

    assert [span.name for span in spans] == ["POST /mutate", "POST /validate"]
    [trace] = {span.trace for span in spans}
    assert int(trace, 16)
    # It is part of a span of the API server's, each of another one.
    assert len({span.parent for span in spans} - {""}) == len(spans)
    assert "xyzzy" not in str(receiver.spans)


async def test_denial_is_in_both_audit_logs(api: ApiClient, plane: Plane, refusals: Path) -> None:
    answer = await create(api, pod("denied", asks=gpus(500), annotations=INTENT))
    assert answer.code == HTTPStatus.FORBIDDEN

    async def written() -> list[dict[str, str]]:
        lines = map(json.loads, refusals.read_text().splitlines())  # noqa: ASYNC240  a short file
        return [line for line in lines if line["name"] == "denied"]

    # The answer does not wait for the line.
    [line] = await eventually(written, bool, "the refusal was written")
    assert (line["user"], line["namespace"], line["policy"]) == ("admin", "team", "single-numa-node")
    assert line["reason"] in answer.body["message"]

    events = map(json.loads, (plane.folder / audits.LOG).read_text().splitlines())
    [event] = [each for each in events if each.get("objectRef", {}).get("name") == "denied"]
    of_hook = {key.rpartition("/")[2]: value for key, value in event["annotations"].items()}
    assert {key: of_hook[key] for key in ("verdict", "state", "policy")} == {
        "verdict": "denied",
        "state": line["state"],
        "policy": line["policy"],
    }
