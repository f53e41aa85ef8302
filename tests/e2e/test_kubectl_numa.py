"""`kubectl numa` through a kubeconfig: what it reads of a real API server, and says of a pod stored there."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from harness.api_requests import INTENT, ask, create, pod
from tests.e2e.conftest import PATHS

pytestmark = pytest.mark.asyncio(loop_scope="session")

Numa = Callable[..., Awaitable[tuple[int, str]]]


async def test_a_snapshot_of_the_cluster_holds_what_the_rules_need(
    kubectl_numa: Numa, classes: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json.gz"

    code, said = await kubectl_numa("snapshot", "-o", str(file))
    assert code == 0, said
    code, said = await kubectl_numa("nodes", f"--snapshot={file}", "-o", "json")

    assert code == 0, said
    assert {node["name"]: node["class"] for node in json.loads(said)} == classes


async def test_the_cluster_can_be_asked_without_a_file(
    kubectl_numa: Numa, classes: Mapping[str, str]
) -> None:
    code, said = await kubectl_numa("nodes", "-o", "json")

    assert code == 0, said
    assert {node["name"]: node["class"] for node in json.loads(said)} == classes


async def test_what_nodes_lack_is_told_of_every_one(kubectl_numa: Numa, classes: Mapping[str, str]) -> None:
    code, said = await kubectl_numa("doctor", "-o", "json")

    assert code == 1, said
    found = {node["name"]: {each["finding"] for each in node["findings"]} for node in json.loads(said)}
    assert {name for name, findings in found.items() if "counts-only" in findings} == {*classes}


async def test_who_writes_a_topology_beside_another_is_named(api: ApiClient, kubectl_numa: Numa) -> None:
    path = f"{PATHS['NodeResourceTopology']}/left-behind"
    told = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    metadata = {"name": "left-behind"}
    attributes = [{"name": "topologyManagerPolicy", "value": "none"}]
    for manager, beside in (
        ("exporter", {"zones": [{"name": "node-0", "type": "Node"}]}),
        ("another", {"zones": [{"name": "node-0", "type": "Node"}], "attributes": attributes}),
        ("numalign-agent", {"metadata": {**metadata, "annotations": {"numalign.io/machine": "{}"}}}),
    ):
        wish = {**told, "metadata": metadata, **beside}
        assert (await ask(api, "PATCH", path, wish, fieldManager=manager)).code < HTTPStatus.BAD_REQUEST
    try:
        _, said = await kubectl_numa("doctor", "left-behind", "-o", "json")
    finally:
        await ask(api, "DELETE", path)

    [node] = json.loads(said)
    findings = {each["finding"]: each["detail"] for each in node["findings"]}
    assert findings["two-writers"] == "another, exporter"
    assert "orphan" in findings


async def test_a_pod_that_is_stored_is_explained_by_its_name(api: ApiClient, kubectl_numa: Numa) -> None:
    made = pod("explained", asks={"nvidia.com/gpu": "4"}, annotations=INTENT)
    assert (await create(api, made)).code == HTTPStatus.CREATED

    code, said = await kubectl_numa("explain", "explained", "-n", "team", "-o", "json")

    assert code == 0, said
    [explained] = json.loads(said)
    assert explained["pod"] == "explained"
    assert any(node["verdict"] == "fits" for node in explained["nodes"])


async def test_a_context_that_is_not_there_is_told(kubectl_numa: Numa) -> None:
    code, said = await kubectl_numa("nodes", "--context", "elsewhere")

    assert code == 2
    assert "elsewhere" in said
    assert "Traceback" not in said
