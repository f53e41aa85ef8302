"""Reviews in the traces of a real API server, and refusals in its audit log and in ours."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tests.system.e2e.own_planes import OwnPlane
from tests.system.e2e.webhooks import Webhook
from tools.bench import cluster
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import create, gpus, pod, rehearse
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.otlp import OtlpReceiver, ReceivedSpan, receiving
from tools.clusters.processes import Children, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")

ADMIN = "admin"
INTENT = {"numalign.io/policy": "single-numa-node", "example.com/secret": "xyzzy"}
REVIEWS = {"POST /mutate", "POST /validate"}
# Where nothing listens: the API server's own spans are not looked at.
UNUSED = "127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Traced:
    """An API server that traces every request, and the webhook that it asks, with its `audit` log."""

    plane: Plane
    api: ApiClient
    receiver: OtlpReceiver
    audit: Path


@module_fixture()
async def traced(
    own_plane: OwnPlane, tmp_path_factory: pytest.TempPathFactory, children: Children, pair: authority.Files
) -> AsyncIterator[Traced]:
    folder = tmp_path_factory.mktemp("traced-flags")
    snapshot, audit = folder / "cluster.json", folder / "refusals.log"
    snapshot.write_text(json.dumps(cluster.snapshot(10)))
    flags = (tracing_flag(folder),)
    async with (
        own_plane("traced", users={ADMIN: "system:masters"}, audited=(ADMIN,), flags=flags) as plane,
        plane.client(ADMIN) as api,
    ):
        with receiving() as receiver:
            # It samples nothing by itself.
            sampling = ("--trace-ratio=0", f"--otlp-endpoint={receiver.endpoint}")
            webhook = Webhook(children, pair, f"--snapshot={snapshot}", f"--audit-log={audit}", *sampling)
            await webhook.start()
            for document in (namespace("team", {}), *webhook.configurations(plane.ca)):
                await Store(api).apply(document)
            await until(partial(reviewed, api, receiver), what="a pod had two reviews", child=plane.child)
            yield Traced(plane, api, receiver, audit)


def tracing_flag(folder: Path) -> str:
    file = folder / "tracing.yaml"
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "TracingConfiguration",
        "endpoint": UNUSED,
        "samplingRatePerMillion": 1_000_000,
    }
    file.write_text(yaml.safe_dump(configuration))
    return f"--tracing-config-file={file}"


async def reviewed(api: ApiClient, receiver: OtlpReceiver) -> bool:
    """Whether a pod was reviewed by both webhooks: the API server learns of each of them by itself."""
    await rehearse(api, asks=gpus(1))
    return {span.name for span in receiver.spans} == REVIEWS


async def spans_of(traced: Traced, name: str) -> list[ReceivedSpan]:
    """The spans of the reviews of a pod, once both have come."""

    def of_pod() -> list[ReceivedSpan]:
        return [span for span in traced.receiver.spans if span.attributes.get("k8s.pod.name") == name]

    async def both() -> bool:
        return len(of_pod()) > 1

    await until(both, what=f"the spans of {name} had come", child=traced.plane.child)
    return of_pod()


async def test_both_reviews_join_the_trace_of_a_creation(traced: Traced) -> None:
    answer = await create(traced.api, pod("traced", asks={"cpu": "2", "memory": "1Gi"}, annotations=INTENT))
    assert answer.code == HTTPStatus.CREATED, answer.body
    spans = await spans_of(traced, "traced")
    assert [span.name for span in spans] == sorted(REVIEWS)
    [trace] = {span.trace for span in spans}
    assert int(trace, 16)
    # It is part of a span of the API server's, each of another one.
    assert len({span.parent for span in spans} - {""}) == len(spans)
    assert "xyzzy" not in str(traced.receiver.spans)


async def test_denial_is_in_both_audit_logs(traced: Traced) -> None:
    answer = await create(traced.api, pod("denied", asks=gpus(500), annotations=INTENT))
    assert answer.code == HTTPStatus.FORBIDDEN

    async def written() -> bool:
        return '"name":"denied"' in traced.audit.read_text()

    # Nobody waits for the line, and so the answer may come before it.
    await until(written, what="the refusal was written", child=traced.plane.child)
    lines = [json.loads(line) for line in traced.audit.read_text().splitlines()]
    [line] = [line for line in lines if line["name"] == "denied"]
    assert (line["user"], line["namespace"], line["policy"]) == (ADMIN, "team", INTENT["numalign.io/policy"])
    assert line["reason"] in answer.body["message"]

    events = map(json.loads, (traced.plane.folder / audits.LOG).read_text().splitlines())
    annotations = [each["annotations"] for each in events if "denied" in str(each.get("responseStatus"))]
    of_hook = {key.rpartition("/")[2]: value for key, value in annotations[-1].items()}
    assert (of_hook["verdict"], of_hook["state"], of_hook["policy"]) == (
        "denied",
        line["state"],
        line["policy"],
    )
