"""What a kubelet rejects is reported by an installation with nothing but its defaults."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from numalign.runtime.clock import utc_now
from tests.system.e2e.clusters import Cluster
from tests.system.e2e.guarded import binding
from tests.system.eventually import eventually
from tools.clusters.api_requests import INTENT, Json, ask, create, gpus, pod

pytestmark = pytest.mark.asyncio(loop_scope="session")

Numa = Callable[..., Awaitable[tuple[int, str]]]

PODS, EVENTS = "/api/v1/namespaces/team/pods", "/api/v1/namespaces/team/events"
NODE, NAME, REASON = "dgx-00", "unlucky", "TopologyAffinityError"


async def reject(cluster: Cluster) -> None:
    """What a scheduler and a kubelet do with the pod: it gets a node, which rejects it."""
    path = f"{PODS}/{NAME}"
    assert (await ask(cluster.api, "POST", f"{path}/binding", binding(NAME, NODE))).code == HTTPStatus.CREATED
    bound = (await ask(cluster.api, "GET", path)).body
    status = {
        "phase": "Failed",
        "reason": REASON,
        "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
        "startTime": f"{utc_now():%Y-%m-%dT%H:%M:%SZ}",
    }
    assert (await ask(cluster.api, "PUT", f"{path}/status", bound | {"status": status})).code == HTTPStatus.OK


async def reported(cluster: Cluster) -> list[Json]:
    found = await ask(cluster.api, "GET", EVENTS, fieldSelector="reason=NUMARefused")
    events: list[Json] = found.body["items"]
    return [event for event in events if event["involvedObject"]["name"] == NAME]


async def test_a_pod_that_its_kubelet_rejects_leaves_a_trace(cluster: Cluster, kubectl_numa: Numa) -> None:
    made = pod(NAME, asks=gpus(1), annotations=INTENT, labels={"app": NAME})
    assert (await create(cluster.api, made)).code == HTTPStatus.CREATED
    code, output = await kubectl_numa("pending", "-n", "team", "-l", f"app={NAME}", "-o", "json")
    assert code == 0, output
    assert [cause["verdict"] for cause in json.loads(output)] == ["fits"]

    await reject(cluster)
    look = partial(reported, cluster)

    [event] = await eventually(look, bool, "the rejection was reported")
    assert event["message"].startswith(f"the kubelet of {NODE} rejected the pod: {REASON}: ")
    code, output = await kubectl_numa("pods", "--rejected", "-n", "team", "-l", f"app={NAME}", "-o", "json")
    assert code == 0, output
    assert [(each["name"], each["node"], each["reason"]) for each in json.loads(output)] == [
        (NAME, NODE, REASON)
    ]
    code, output = await kubectl_numa("explain", NAME, "-n", "team")
    assert code == 0, output
    assert output.startswith(f"rejected by {NODE} less than a minute ago: {REASON}: ")

    await ask(cluster.api, "DELETE", f"{PODS}/{NAME}", gracePeriodSeconds="0")


Kubectl = Callable[..., Awaitable[tuple[int, str]]]


def workload(kind: str, name: str, asks: Json) -> Json:
    labels = {"app": "trainer"}
    template = {"metadata": {"labels": labels, "annotations": INTENT}, "spec": pod("", asks=asks)["spec"]}
    metadata = {"name": name, "namespace": "team"}
    if kind == "Deployment":
        spec: Json = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    template["spec"] |= {"restartPolicy": "Never"}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "created"), [("Deployment", "deployment.apps"), ("CronJob", "cronjob.batch")]
)
async def test_only_an_impossible_workload_warns_at_apply(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path, kind: str, created: str
) -> None:
    outputs, file = {}, tmp_path / "workload.yaml"
    for name, count in (("wide", 64), ("fits", 2)):
        wish = workload(kind, name, gpus(count))
        file.write_text(yaml.safe_dump(wish))
        code, outputs[name] = await kubectl("apply", f"--filename={file}")
        assert code == 0, outputs
        assert "affinity" not in str((await cluster.store.read(wish)).body["spec"])

    for text in (f"{created}/wide created", "Warning: numalign", "nvidia.com/gpu"):
        assert text in outputs["wide"]
    assert outputs["fits"] == f"{created}/fits created\n"
