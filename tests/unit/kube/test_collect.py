"""A snapshot of a running cluster, and errors of its kubeconfig and its answers."""

import re
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from numalign.kube import collect
from numalign.kube.connection import Connection
from numalign.kube.errors import Gone, Unauthorized, Unconfigured, Unreachable
from numalign.kube.files import snapshot
from numalign.kube.kinds import PODS
from numalign.kube.resource_types import POD
from numalign.model.options import NEWEST
from tests.unit.kube.conftest import Kubeconfig
from tests.worlds.notation import table
from tests.worlds.objects import Json, node, numatopology, pod
from tools.clusters.fake_api import FakeApi

V1ALPHA1 = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
NAMESPACES = "/api/v1/namespaces"
V1ALPHA2 = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def kinds(cluster: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in cluster["items"]]


async def test_a_cluster_is_a_list_of_objects(kubeconfig: Kubeconfig) -> None:
    cluster = await collect.collect(Connection(kubeconfig()))
    assert (cluster["apiVersion"], cluster["kind"]) == ("v1", "List")
    nodes, topology = [("v1", "Node", name) for name in "ab"], "topology.node.k8s.io/v1alpha2"
    assert kinds(cluster) == [
        *nodes, (topology, "NodeResourceTopology", "a"), ("v1", "Namespace", "default"),
    ]  # fmt: skip


@pytest.mark.parametrize(("answer", "minor"), table([
    ("an old one", {"gitVersion": "v1.34.2"}, 34), ("nonsense", {"gitVersion": {}}, NEWEST),
]))  # fmt: skip
async def test_a_snapshot_has_the_version_of_the_api_server(
    api: FakeApi, kubeconfig: Kubeconfig, answer: dict[str, Any], minor: int
) -> None:
    api.documents["/version"] = answer
    assert snapshot.of([await collect.collect(Connection(kubeconfig()))]).server == minor


@pytest.mark.parametrize(
    "expires", [False, True], ids=["one after another", "as a whole if the next is gone"]
)
async def test_a_long_list_comes_in_pages(api: FakeApi, kubeconfig: Kubeconfig, *, expires: bool) -> None:
    api.page = 2
    api.failures |= {("NEXT", "/api/v1/nodes"): HTTPStatus.GONE} if expires else {}
    for name in "cde":
        api.put(node(name))
    cluster = await collect.collect(Connection(kubeconfig()))
    assert [name for _, kind, name in kinds(cluster) if kind == "Node"] == [*"abcde"]
    limits = [page.query.get("limit") for page in api.received("LIST", "/api/v1/nodes")]
    assert limits == (["500"] * 2 + [None] if expires else ["500"] * 3)


async def test_unread_fields_are_not_collected(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    container = {"name": "main", "image": "example", "env": [{"name": "PASSWORD", "value": "secret"}],
        "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}  # fmt: skip
    ours = {"numalign.io/policy": "restricted"}
    annotations = {**ours, "kubectl.kubernetes.io/last-applied-configuration": "secret"}
    metadata = {"name": "p", "namespace": "n"}
    spec = {"containers": [container], "volumes": [{"name": "secret", "hostPath": {"path": "/secret"}}]}
    written = {**metadata, "annotations": annotations, "managedFields": [{}]}
    made_pod = api.put({"apiVersion": "v1", "kind": "Pod", "metadata": written, "spec": spec})
    described = {"name": "c", "labels": {"x": "y"}, "annotations": {"b": "c"}}
    taints = {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "secret"}
    status = {
        "allocatable": {"cpu": "4"}, "images": [{"names": ["secret"]}],
        "conditions": [{"type": "Ready", "status": "True", "message": "secret"}],
        "nodeInfo": {"kubeletVersion": "v1.34.4", "machineID": "secret", "systemUUID": "secret"},
    }  # fmt: skip
    made_node = api.put({**node("c"), "metadata": described, "spec": taints, "status": status})
    cluster = await collect.collect(Connection(kubeconfig()), with_pods=True)
    assert cluster["items"][2] == {"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "c", "labels": {"x": "y"}, "uid": made_node["metadata"]["uid"]},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.34.4"}}}  # fmt: skip
    stamps = {key: made_pod["metadata"][key] for key in ("uid", "creationTimestamp")}
    assert cluster["items"][-1] == {"apiVersion": "v1", "kind": "Pod",
        "metadata": {**metadata, **stamps, "annotations": ours},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"hostPath": {}}]}}  # fmt: skip


@pytest.mark.parametrize(("requests", "usual", "expected"), [
    ("team", "mine", "team"), (None, "mine", "mine"), (None, None, "default"),
])  # fmt: skip
async def test_the_namespace_of_one_pod(
    api: FakeApi, kubeconfig: Kubeconfig, requests: str | None, usual: str | None, expected: str
) -> None:
    made = api.put(pod("web", namespace=expected))
    cluster = await collect.one(
        POD, "web", namespace=requests, connection=Connection(kubeconfig(namespace=usual))
    )
    assert cluster == PODS.described(made)


async def test_missing_topologies_are_left_out(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.failures |= dict.fromkeys((V1ALPHA1, V1ALPHA2), HTTPStatus.NOT_FOUND)
    left_out: list[tuple[str, str]] = []
    cluster = await collect.collect(
        Connection(kubeconfig()), left_out=lambda what, error: left_out.append((what, str(error)))
    )
    assert {kind for _, kind, _ in kinds(cluster)} == {"Node", "Namespace"}
    [(what, why)] = left_out
    assert what == "noderesourcetopologies"
    assert "agent.enabled in the chart" in why


@pytest.mark.parametrize(("body", "sentence"), table([
    ("no list", b'{"items": 1}', "items: must be a list, not a number"),
    ("no object", b'{"items": [1]}', "items[0]: must be an object, not a number"),
    ("no continue token", b'{"metadata": {"continue": 1}}', "metadata.continue: must be a string"),
]))  # fmt: skip
async def test_unreadable_answers(api: FakeApi, kubeconfig: Kubeconfig, body: bytes, sentence: str) -> None:
    api.oddities["/api/v1/nodes"] = body
    with pytest.raises(Unreachable, match=re.escape(sentence)):
        await collect.collect(Connection(kubeconfig()))


async def test_an_expired_first_page_is_an_error(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.failures["/api/v1/nodes"] = HTTPStatus.GONE
    with pytest.raises(Gone):
        await collect.collect(Connection(kubeconfig()))


NO_SERVER = """{clusters: [{name: c, cluster: {}}], users: [], current-context: x,
    contexts: [{name: x, context: {cluster: c}}]}"""


@pytest.mark.parametrize(("content", "sentence"), table([
    ("no YAML", "a: [", "cannot be used"),
    ("too deep", "a: " + "[" * 1000, "is nested deeper than 100 levels"),
    ("no current context", "clusters: []\ncontexts: []\nusers: []", "cannot be used: .*current-context"),
    ("no such context", "current-context: x\ncontexts: []", "cannot be used: .*x"),
    ("no server", NO_SERVER, "a part of it is missing"),
]))  # fmt: skip
async def test_a_broken_kubeconfig_is_unconfigured(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(Unconfigured, match=sentence) as raised:
        await collect.collect(Connection(str(path)))
    assert str(path) in str(raised.value)


async def test_wrong_files_contexts_and_tokens(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match=r"there is no kubeconfig at .*: name another file or context"):
        await collect.collect(Connection(str(tmp_path / "none")))
    with pytest.raises(Unconfigured, match=r"cannot be used: .*other"):
        await collect.collect(Connection(kubeconfig(), "other"))
    with pytest.raises(Unauthorized, match="log in again"):
        await collect.collect(Connection(kubeconfig(token="wrong")))  # noqa: S106  it is the wrong one


SHAPES = "/api/v1/namespaces/numalign/configmaps/numalign-shapes"


def install(api: FakeApi) -> Json:
    """The webhook, and the shapes that are remembered beside it."""
    client = {"clientConfig": {"service": {"namespace": "numalign", "name": "numalign"}}}
    api.put({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "zz-numalign"}, "webhooks": [client]})  # fmt: skip
    shapes = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"losses": "{}"},
        "metadata": {"name": "numalign-shapes", "namespace": "numalign"}}  # fmt: skip
    api.put(shapes)
    return shapes


async def test_remembered_shapes_are_collected(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    shapes = install(api)
    cluster = await collect.collect(Connection(kubeconfig()))
    assert cluster["items"][-1] == shapes


DEVICE_CLASSES = "/apis/resource.k8s.io/{}/deviceclasses"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_device_classes_of_a_served_version(api: FakeApi, kubeconfig: Kubeconfig, version: str) -> None:
    gpus = {"metadata": {"name": "gpus"}, "spec": {"config": [], "selectors": []}}
    api.failures |= {DEVICE_CLASSES.format("v1"): HTTPStatus.NOT_FOUND} if version != "v1" else {}
    api.documents[DEVICE_CLASSES.format(version)] = {"items": [gpus]}
    cluster = await collect.collect(Connection(kubeconfig()))
    assert cluster["items"][-1] == {"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceClass",
        "metadata": {"name": "gpus"}, "spec": {}}  # fmt: skip


async def test_numatopologies_are_collected(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    annotated = {**numatopology(), "metadata": {"name": "a", "annotations": {"x": "1"}}}
    api.documents[NUMATOPOLOGIES] = {"items": [annotated]}
    cluster = await collect.collect(Connection(kubeconfig()))
    assert cluster["items"][-1] == numatopology()


NUMATOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
DENIED = {
    "deviceclasses": DEVICE_CLASSES.format("v1"),
    "numatopologies": NUMATOPOLOGIES,
    "ConfigMap numalign-shapes": SHAPES,
}


@pytest.mark.parametrize(("what", "path"), DENIED.items(), ids=DENIED)
async def test_denied_kinds_are_left_out(api: FakeApi, kubeconfig: Kubeconfig, what: str, path: str) -> None:
    install(api)
    api.failures[path] = HTTPStatus.FORBIDDEN
    left_out: list[str] = []
    cluster = await collect.collect(Connection(kubeconfig()), left_out=lambda what, _: left_out.append(what))
    assert (left_out, len(cluster["items"])) == ([what], 4 if what.startswith("ConfigMap") else 5)
