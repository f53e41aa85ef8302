"""What users of a real API server see of numalign: pods that are patched, denied, warned of, left alone."""

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from time import monotonic

import aiohttp
import pytest
import yaml
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.e2e.programs import Webhook
from tests.system.eventually import eventually
from tests.worlds.otlp import OtlpReceiver, ReceivedSpan
from tools.clusters.api_requests import INTENT, Json, ask, create, gpus, pod, read, rehearse
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane

Kubectl = Callable[..., Awaitable[tuple[int, str]]]

pytestmark = pytest.mark.asyncio(loop_scope="session")

# A zone of the small node has 2, one of the large node 4.
FITS = {"nvidia.com/gpu": "4"}
NEVER_FITS = {"nvidia.com/gpu": "8"}
# Both cards of the large node are taken.
FITS_LATER = {"example.com/nic": "1"}

REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "trainer-5d9c",
    "uid": "0b9ad3f4-29b5-4c2c-9a3c-3d1f0d6f7a51",
    "controller": True,
    "blockOwnerDeletion": True,
}
VALIDATIONS = re.compile(
    r'^apiserver_admission_webhook_request_total{.*name="(.+?)",.*type="validating"} (\d+)$', re.MULTILINE
)
# Both hooks may use up their time, and the API server needs some of its own; by default they had 20 seconds.
PATIENCE_SECONDS = 2 + 3 + 10


def off(node_class: str) -> Json:
    expression = {"key": "numalign.io/class", "operator": "NotIn", "values": [node_class]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


CASES: dict[str, tuple[str, Mapping[str, str], Mapping[str, str], str]] = {
    # what comes where         namespace     requests    annotations  whether it is patched, or denied by what
    "possible":               ("team",       FITS,       INTENT, "patched"),
    "impossible":             ("team",       NEVER_FITS, INTENT, "pods.validate.numalign.io"),
    "without an intent":      ("team",       NEVER_FITS, {},     ""),
    "possible by default":    ("by-default", FITS,       {},     "patched"),
    "impossible by default":  ("by-default", NEVER_FITS, {},     "pods-by-default.validate.numalign.io"),
    "weaker than enforced":   ("enforced",   FITS,       {},     "pods.enforce.numalign.io"),
    "as enforced":            ("enforced",   FITS,       INTENT, "patched"),
    "where admission is off": ("left-alone", NEVER_FITS, INTENT, ""),
    "of the system":          ("kube-system", NEVER_FITS, INTENT, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
async def test_pods_are_patched_denied_or_left_alone(
    api: ApiClient, classes: Mapping[str, str], what: str
) -> None:
    namespace, asks, annotations, outcome = CASES[what]

    answer = await create(api, pod("made", asks=asks, annotations=annotations), namespace=namespace)

    if outcome.startswith("pods"):
        assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
        assert answer.body["message"].startswith(
            f'admission webhook "{outcome}" denied the request: numalign:'
        )
    else:
        assert (answer.code, answer.warnings) == (201, [])
        assert answer.body["spec"].get("affinity") == (off(classes["small"]) if outcome else None)
        assert answer.body["metadata"].get("annotations", {}) == annotations


async def test_pod_that_fits_later_is_stored_with_a_warning(api: ApiClient) -> None:
    answer = await create(api, pod("later", asks=FITS_LATER, annotations=INTENT))
    assert answer.code == 201
    [warning] = answer.warnings
    assert warning.startswith("numalign:")
    assert len(warning) <= 120


@pytest.mark.usefixtures("api")
async def test_pods_of_controllers_are_patched(
    as_user: Mapping[str, ApiClient], classes: Mapping[str, str]
) -> None:
    owned = pod("", asks=FITS, annotations=INTENT, ownerReferences=[REPLICA_SET], generateName="trainer-")
    answer = await create(as_user["system:serviceaccount:kube-system:replicaset-controller"], owned)
    assert answer.code == 201
    assert answer.body["metadata"]["name"].startswith("trainer-")
    assert answer.body["spec"]["affinity"] == off(classes["small"])


# ---- how often the API server calls the validating hooks, by its own metrics


async def validations(api: ApiClient) -> Counter[str]:
    output, *_ = await api.call_api("/metrics", "GET", response_types_map={200: "str"})
    calls = Counter[str]()
    for name, count in VALIDATIONS.findall(output):
        calls[name] += int(count)
    return calls


async def test_mirror_pods_of_kubelets_are_not_reviewed(
    api: ApiClient, as_user: Mapping[str, ApiClient]
) -> None:
    wish = pod("mirror", asks=NEVER_FITS, annotations=INTENT | {"kubernetes.io/config.mirror": "1"})
    wish["spec"]["nodeName"] = "large"
    before = await validations(api)
    await create(api, wish, dryRun="All")
    ours = await validations(api)
    answer = await create(as_user["system:node:large"], wish)
    assert answer.code == 201
    assert ours - before == Counter(["pods.validate.numalign.io"])
    assert await validations(api) == ours


async def test_pod_is_validated_once(api: ApiClient) -> None:
    before = await validations(api)
    for namespace in ("team", "by-default", "warned", "enforced"):
        await create(api, pod("strict", asks=FITS, annotations=INTENT), namespace=namespace)

    assert await validations(api) - before == Counter(
        [
            "pods.validate.numalign.io",
            "pods-by-default.validate.numalign.io",
            "pods-by-warn.validate.numalign.io",
            "pods.enforce.numalign.io",
        ]
    )


# ---- kubectl


@pytest.mark.parametrize(
    ("how", "says"),
    [
        pytest.param("--server-side=false", "pod/twice unchanged", id="client-side"),
        pytest.param("--server-side=true", "pod/twice serverside-applied", id="server-side"),
    ],
)
async def test_second_kubectl_apply_changes_nothing(
    api: ApiClient, kubectl: Kubectl, tmp_path: Path, how: str, says: str
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod("twice", asks=FITS, annotations=INTENT)))
    manifest = ("--namespace=team", f"--filename={file}", how)

    assert (await kubectl("apply", *manifest))[0] == 0
    first = await read(api, "twice")
    code, output = await kubectl("apply", *manifest)

    assert (code, says in output) == (0, True), output
    assert first.body["spec"]["affinity"]
    assert (await read(api, "twice")).body == first.body
    assert await kubectl("diff", *manifest) == (0, "")


# ---- while the webhook is away


@pytest.mark.usefixtures("absence")
async def test_without_webhook_only_enforcing_namespaces_deny(api: ApiClient) -> None:
    began = monotonic()
    alone = await create(api, pod("alone", asks=NEVER_FITS, annotations=INTENT))
    enforced = await create(api, pod("alone", asks=FITS, annotations=INTENT), namespace="enforced")
    assert monotonic() - began < 2 * PATIENCE_SECONDS
    assert (alone.code, "affinity" in alone.body["spec"]) == (201, False)
    assert enforced.code == 500
    assert 'failed calling webhook "pods.enforce.numalign.io"' in enforced.body["message"]


# ---- topologies, and who calls


async def test_topologies_have_zones_and_two_versions(api: ApiClient) -> None:
    path = "/apis/topology.node.k8s.io/{}/noderesourcetopologies"
    new, old = [
        (await ask(api, "GET", f"{path.format(version)}/large")).body for version in ("v1alpha2", "v1alpha1")
    ]
    assert old["zones"] == new["zones"]
    assert len(new["zones"]) == 2
    assert ("attributes" in new, "attributes" in old) == (True, False)
    empty = {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": {"name": "empty"}}
    assert (await ask(api, "POST", path.format("v1alpha2"), empty)).code == 422


async def test_api_server_authenticates_by_client_certificate(admin: ApiClient, webhook: Webhook) -> None:
    calls = []
    for _ in range(2):
        async with aiohttp.ClientSession() as session, session.get(f"{webhook.metrics_url}/metrics") as page:
            calls += re.findall(r"^numalign_http_proven_total (\S+)$", await page.text(), re.MULTILINE)
        assert (await rehearse(admin, asks={})).code == HTTPStatus.CREATED
    before, after = map(float, calls)
    assert after > before


# ---- traces, and logs of refusals


SECRETIVE = {"numalign.io/policy": "single-numa-node", "example.com/secret": "xyzzy"}


async def test_both_reviews_join_the_trace_of_a_creation(api: ApiClient, receiver: OtlpReceiver) -> None:
    answer = await create(api, pod("traced", asks={"cpu": "2", "memory": "1Gi"}, annotations=SECRETIVE))
    assert answer.code == HTTPStatus.CREATED, answer.body

    async def of_pod() -> list[ReceivedSpan]:
        return [span for span in receiver.spans if span.attributes.get("k8s.pod.name") == "traced"]

    spans = await eventually(of_pod, lambda seen: len(seen) > 1, "the spans of both reviews had come")

    assert [span.name for span in spans] == ["POST /mutate", "POST /validate"]
    [trace] = {span.trace for span in spans}
    assert int(trace, 16)
    # It is part of a span of the API server's, each of another one.
    assert len({span.parent for span in spans} - {""}) == len(spans)
    assert "xyzzy" not in str(receiver.spans)


async def test_denial_is_in_both_audit_logs(api: ApiClient, plane: Plane, refusals: Path) -> None:
    answer = await create(api, pod("denied", asks=gpus(500), annotations=SECRETIVE))
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
