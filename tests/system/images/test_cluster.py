"""
The packaged chart is installed into a cluster that runs the images.

All of it is real: API server, controllers, scheduler, kubelet, containerd, runc. The kubelet mounts, probes
and confines what the pods of the chart ask for, and the API server comes to the webhook through its Service.
The tests run in this order, and end with an empty cluster.
"""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.eventually import eventually
from tests.system.images.conftest import NAMESPACE, RELEASE, ROOT, VERSION, Helm
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import INTENT, Json, ask
from tools.clusters.containers import NODE, ContainerCluster
from tools.clusters.processes import run

pytestmark = pytest.mark.asyncio(loop_scope="session")

INSTALL = ("--set", "agent.enabled=true", "--wait", "--timeout=5m")
PODS = {"numalign-agent": 1, "numalign-controller": 2, "numalign-webhook": 2}
GUIDE = ROOT / "docs" / "how-to" / "uninstall.md"
DEFINITION = "noderesourcetopologies.topology.node.k8s.io"
"""What Helm keeps, with all topologies: others may publish some."""

COMES_AND_GOES = ("events", "leases", "endpoints", "endpointslices")
"""What is written all the time, whatever is installed."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(containers_cluster: ContainerCluster) -> AsyncIterator[ApiClient]:
    async with containers_cluster.plane.client("admin") as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(api: ApiClient) -> set[str]:
    """All that the cluster holds before the chart is installed."""
    return await everything(api)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installed(helm: Helm, before: set[str]) -> str:
    """What helm prints of the installation, once all of it is ready."""
    assert before
    return await helm("install", RELEASE, str(helm.chart), "--create-namespace", *INSTALL)


async def test_chart_runs_without_root_and_labels_the_node(api: ApiClient, installed: str) -> None:
    """The webhook and the controller run as nobody; the agent as root, whose the kubelet's socket is."""
    assert "STATUS: deployed" in installed

    async def ready() -> dict[str, int]:
        return Counter(
            each["spec"]["serviceAccountName"]
            for each in (await ask(api, "GET", "/api/v1/pods")).body["items"]
            for condition in each["status"].get("conditions", [])
            if (condition["type"], condition["status"]) == ("Ready", "True")
        )

    await eventually(ready, lambda seen: seen == PODS, "all were ready")
    for made in (await ask(api, "GET", f"/api/v1/namespaces/{NAMESPACE}/pods")).body["items"]:
        assert made["spec"]["securityContext"]["runAsUser"] == 65532
        for container in made["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]

    look = partial(ask, api, "GET", f"/api/v1/nodes/{NODE}")
    await eventually(
        look, lambda seen: "numalign.io/class" in seen.body["metadata"]["labels"], "the node was labelled"
    )
    [topology] = await Store(api).list("topology.node.k8s.io/v1alpha2", "NodeResourceTopology")
    assert topology["metadata"]["name"] == NODE
    assert topology["zones"]


@pytest.mark.usefixtures("installed")
async def test_pod_that_the_node_can_align_runs_and_no_other(api: ApiClient) -> None:
    path = "/api/v1/namespaces/default/pods"
    answer = await ask(api, "POST", path, pod("large", cpu="1000"))
    assert answer.code == HTTPStatus.FORBIDDEN
    assert "denied the request: numalign: no node can align the pod as single-numa-node" in str(answer)
    answer = await ask(api, "POST", path, pod("small", cpu="1"))
    assert answer.code == HTTPStatus.CREATED, str(answer)
    await eventually(
        partial(ask, api, "GET", f"{path}/small"),
        lambda seen: seen.body["status"].get("phase") == "Succeeded",
        "the pod succeeded",
    )


@pytest.mark.usefixtures("installed")
async def test_helm_test_passes(helm: Helm) -> None:
    output = await helm("test", RELEASE, "--timeout=2m")
    assert "Phase:          Succeeded" in output, output


@pytest.mark.usefixtures("installed")
async def test_uninstalling_removes_every_object(helm: Helm, api: ApiClient, before: set[str]) -> None:
    await ask(api, "DELETE", "/api/v1/namespaces/default/pods/small", gracePeriodSeconds="0")
    for script in (documented("Remove what Helm installed"), f"kubectl delete crd {DEFINITION}"):
        code, output = await run("sh", "-euc", script, **helm.environment)
        assert code == 0, f"{script}\n{output}"
    await eventually(partial(everything, api), lambda left: left <= before, "all was gone")


async def everything(api: ApiClient) -> set[str]:
    """Every object of every kind that the API server lists, and every label and annotation of ours on any."""
    listed: set[str] = set()
    for kind in await Store(api).kinds():
        if "list" in kind.verbs and kind.plural not in COMES_AND_GOES:
            for item in (await ask(api, "GET", kind.path())).body.get("items", []):
                metadata = item["metadata"]
                name = f"{kind.plural} {metadata.get('namespace', '')}/{metadata['name']}"
                keys = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
                listed |= {name, *(f"{name} {key}" for key in keys if "numalign" in key)}
    return listed


def documented(heading: str) -> str:
    section = GUIDE.read_text().partition(f"\n## {heading}\n")[2]
    return section.partition("```sh\n")[2].partition("```")[0]


def pod(name: str, *, cpu: str) -> Json:
    """A pod that asks for whole processors of one zone, and ends at once."""
    container = {
        "name": "main",
        "image": f"numalign-agent:{VERSION}",
        "args": ["--version"],
        "resources": {"limits": {"cpu": cpu, "memory": "64Mi"}},
    }
    metadata = {"name": name, "namespace": "default", "annotations": INTENT}
    spec = {"containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
