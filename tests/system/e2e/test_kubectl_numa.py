"""`kubectl numa` through a kubeconfig: what it reads of a real API server, and says of a pod stored there."""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from tests.system.e2e.conftest import PATHS
from tests.worlds.programs import path_of
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import program, run

pytestmark = pytest.mark.asyncio(loop_scope="session")

Numa = Callable[..., Awaitable[tuple[int, str]]]


async def test_snapshot_has_all_that_rules_need(
    kubectl_numa: Numa, classes: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json.gz"
    code, output = await kubectl_numa("snapshot", "-o", str(file))
    assert code == 0, output
    code, output = await kubectl_numa("nodes", f"--snapshot={file}", "-o", "json")
    assert code == 0, output
    assert {node["name"]: node["class"] for node in json.loads(output)} == classes


async def test_doctor_names_two_writers_of_a_topology(api: ApiClient, kubectl_numa: Numa) -> None:
    path = f"{PATHS['NodeResourceTopology']}/left-behind"
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    metadata = {"name": "left-behind"}
    attributes = [{"name": "topologyManagerPolicy", "value": "none"}]
    for manager, beside in (
        ("exporter", {"zones": [{"name": "node-0", "type": "Node"}]}),
        ("another", {"zones": [{"name": "node-0", "type": "Node"}], "attributes": attributes}),
        ("numalign-agent", {"metadata": {**metadata, "annotations": {"numalign.io/machine": "{}"}}}),
    ):
        wish = {**kind, "metadata": metadata, **beside}
        assert (await ask(api, "PATCH", path, wish, fieldManager=manager)).code < HTTPStatus.BAD_REQUEST
    try:
        _, output = await kubectl_numa("doctor", "left-behind", "-o", "json")
    finally:
        await ask(api, "DELETE", path)

    [node] = json.loads(output)
    findings = {each["finding"]: each["detail"] for each in node["findings"]}
    assert findings["two-writers"] == "another, exporter"
    assert "orphan" in findings


# Flags that mean what they mean to kubectl.


async def test_impersonation_is_passed_on(kubectl_numa: Numa, classes: Mapping[str, str]) -> None:
    code, output = await kubectl_numa("nodes", "--as=stranger", "-o", "name")
    assert (code, "not allowed to read the list of nodes" in output) == (2, True), output
    code, output = await kubectl_numa("nodes", "--as=stranger", "--as-group=system:masters", "-o", "name")
    assert code == 0, output
    assert {*output.split()} == {f"node/{name}" for name in classes}


async def test_a_server_and_a_token_need_no_kubeconfig(
    kubectl_numa: Numa, plane: Plane, classes: Mapping[str, str]
) -> None:
    server = (f"--server=https://127.0.0.1:{plane.port}", "--token=admin", "-o", "name")
    code, output = await kubectl_numa("nodes", *server, KUBECONFIG="/nowhere")
    assert (code, "certificate" in output) == (2, True), output
    for trust in (f"--certificate-authority={plane.ca}", "--insecure-skip-tls-verify"):
        code, output = await kubectl_numa("nodes", *server, trust, KUBECONFIG="/nowhere")
        assert code == 0, output
        assert f"node/{next(iter(classes))}" in output.split()


async def test_kubectl_completes_what_is_typed(
    plane: Plane, classes: Mapping[str, str], tmp_path: Path
) -> None:
    kubectl, first = path_of("kubectl"), next(iter(classes))
    environment = {
        "PATH": f"{Path(program('kubectl-numa')).parent}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig("admin", tmp_path)),
    }
    _, output = await run(kubectl, "__complete", "numa", "nod", **environment)
    assert "nodes" in [line.partition("\t")[0] for line in output.splitlines()], output
    _, output = await run(kubectl, "__complete", "numa", "nodes", first[:-1], **environment)
    assert first in output.splitlines(), output
