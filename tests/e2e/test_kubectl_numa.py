"""`kubectl numa` through a kubeconfig: what it reads of a real API server, and says of a pod stored there."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiClient

from harness.api_requests import INTENT, create, pod

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
