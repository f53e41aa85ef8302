"""A running cluster, asked over HTTP: what comes back, and what is said when it does not."""

import inspect
import re
import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from numalign.kube import collect, errors
from numalign.kube.connection import Connection
from numalign.kube.errors import (
    ClusterError,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
    Unconfigured,
    Unreachable,
)
from numalign.kube.files import snapshot
from numalign.kube.kinds import PODS
from numalign.kube.resource_types import POD
from numalign.model.options import NEWEST
from tests.unit.kube.conftest import Kubeconfig
from tests.worlds.objects import node, nrt, numatopology, pod
from tools.clusters.fake_api import FakeApi

V1ALPHA1 = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
NAMESPACES = "/api/v1/namespaces"
V1ALPHA2 = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def kinds(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in found["items"]]


async def test_a_cluster_is_collected_as_a_list_that_says_each_kind(kubeconfig: Kubeconfig) -> None:
    found = await collect.collect(Connection(kubeconfig()))

    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert kinds(found) == [
        ("v1", "Node", "a"),
        ("v1", "Node", "b"),
        ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", "a"),
        ("v1", "Namespace", "default"),
    ]


async def test_what_was_collected_is_a_snapshot(kubeconfig: Kubeconfig) -> None:
    seen = snapshot.of([await collect.collect(Connection(kubeconfig()), with_pods=True)])

    assert (seen.unknown, list(seen.namespaces)) == (("a", "b"), ["default"])
    assert [(problem.kind, problem.name) for problem in seen.problems] == [("NodeResourceTopology", "a")]


@pytest.mark.parametrize(
    ("answer", "minor"),
    [({"gitVersion": "v1.34.2"}, 34), ({"gitVersion": {}}, NEWEST), (None, NEWEST)],
    ids=["an old one", "nonsense", "none"],
)
async def test_a_snapshot_has_the_version_of_the_api_server(
    api: FakeApi, kubeconfig: Kubeconfig, answer: dict[str, Any] | None, minor: int
) -> None:
    if answer:
        api.documents["/version"] = answer

    assert snapshot.of([await collect.collect(Connection(kubeconfig()))]).server == minor


@pytest.mark.parametrize(
    ("expires", "queries"),
    [
        (None, [{"limit"}, {"limit", "continue"}, {"limit", "continue"}]),
        (2, [{"limit"}, {"limit", "continue"}, {"limit", "continue"}, set()]),
    ],
    ids=["one after another", "and as a whole where the next is gone"],
)
async def test_a_long_list_comes_in_pages(
    api: FakeApi, kubeconfig: Kubeconfig, expires: int | None, queries: list[set[str]]
) -> None:
    api.page, api.expire_pages_after = 2, expires
    for name in "cde":
        api.put(node(name))

    found = await collect.collect(Connection(kubeconfig()))

    assert [name for _, kind, name in kinds(found) if kind == "Node"] == [*"abcde"]
    asked = api.asked("LIST", "/api/v1/nodes")
    assert [{*page.query} for page in asked] == queries
    assert {page.query.get("limit") for page in asked} <= {"500", None}


async def test_an_older_exporter_is_read_too(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.not_served = {V1ALPHA2}
    api.put({**nrt("a"), "apiVersion": "topology.node.k8s.io/v1alpha1"})

    found = await collect.collect(Connection(kubeconfig()))

    assert ("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", "a") in kinds(found)


async def test_only_what_is_read_leaves_the_cluster(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    container = {
        "name": "main",
        "image": "example",
        "env": [{"name": "PASSWORD", "value": "secret"}],
        "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
    }
    annotations = {
        "numalign.io/policy": "restricted",
        "kubectl.kubernetes.io/last-applied-configuration": "secret",
    }
    metadata = {"name": "p", "namespace": "n"}
    spec = {"containers": [container], "volumes": [{"name": "secret", "hostPath": {"path": "/secret"}}]}
    written = {**metadata, "annotations": annotations, "managedFields": [{}]}
    made_pod = api.put({"apiVersion": "v1", "kind": "Pod", "metadata": written, "spec": spec})
    made_node = api.put(
        {
            **node("c"),
            "metadata": {"name": "c", "labels": {"x": "y"}, "annotations": {"b": "c"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "secret"},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "message": "secret"}],
                "images": [{"names": ["secret"]}],
                "nodeInfo": {"kubeletVersion": "v1.34.4", "machineID": "secret", "systemUUID": "secret"},
            },
        }
    )

    found = await collect.collect(Connection(kubeconfig()), with_pods=True)

    assert found["items"][2] == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "c", "labels": {"x": "y"}, "uid": made_node["metadata"]["uid"]},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        },
    }
    assert found["items"][-1] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "uid": made_pod["metadata"]["uid"],
            "creationTimestamp": made_pod["metadata"]["creationTimestamp"],
            "annotations": {"numalign.io/policy": "restricted"},
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"hostPath": {}}],
        },
    }


@pytest.mark.parametrize(
    ("asked", "usual", "expected"),
    [("team", "mine", "team"), (None, "mine", "mine"), (None, None, "default")],
    ids=["as asked", "of the context", "default"],
)
async def test_a_pod_is_found_in_its_namespace(
    api: FakeApi, kubeconfig: Kubeconfig, asked: str | None, usual: str | None, expected: str
) -> None:
    made = api.put(pod("web", namespace=expected))

    found = await collect.one(POD, "web", namespace=asked, connection=Connection(kubeconfig(namespace=usual)))

    assert found == PODS.described(made)


async def test_a_name_cannot_lead_elsewhere(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with pytest.raises(NotFound, match=re.escape("pod default/../../nodes/a does not exist")):
        await collect.one(POD, "../../nodes/a", connection=Connection(kubeconfig()))
    assert [asked.path for asked in api.requests] == ["/api/v1/namespaces/default/pods/../../nodes/a"]


LISTS_THAT_FAIL: list[tuple[str, HTTPStatus, type[Exception], str]] = [
    (NAMESPACES, HTTPStatus.UNAUTHORIZED, Unauthorized, "does not accept your credentials (as told"),
    (NAMESPACES, HTTPStatus.FORBIDDEN, Forbidden, "not allowed to read the list of namespaces (as told"),
    (NAMESPACES, HTTPStatus.NOT_FOUND, NotFound, "the list of namespaces does not exist (as told"),
    (NAMESPACES, HTTPStatus.GONE, Gone, "is no longer available"),
    (NAMESPACES, HTTPStatus.TOO_MANY_REQUESTS, Unreachable, "answered 429"),
    (NAMESPACES, HTTPStatus.SERVICE_UNAVAILABLE, Unreachable, "answered 503"),
    (V1ALPHA2, HTTPStatus.FORBIDDEN, Forbidden, "ClusterRole with the verbs get and list on nodes"),
]


@pytest.mark.parametrize(("path", "code", "error", "sentence"), LISTS_THAT_FAIL)
async def test_a_failing_list_is_told(  # noqa: PLR0913, PLR0917  a row of the table
    api: FakeApi, kubeconfig: Kubeconfig, path: str, code: HTTPStatus, error: type[Exception], sentence: str
) -> None:
    api.failures[path], api.not_served = code, {V1ALPHA1}

    with pytest.raises(error, match=re.escape(sentence)):
        await collect.collect(Connection(kubeconfig()))


async def test_a_cluster_without_topologies_is_collected_and_that_is_told(
    api: FakeApi, kubeconfig: Kubeconfig
) -> None:
    api.not_served = {V1ALPHA1, V1ALPHA2}
    told: list[tuple[str, str]] = []

    found = await collect.collect(
        Connection(kubeconfig()), left_out=lambda what, error: told.append((what, str(error)))
    )

    assert {kind for _, kind, _ in kinds(found)} == {"Node", "Namespace"}
    [(what, why)] = told
    assert what == "noderesourcetopologies"
    assert "agent.enabled in the chart" in why


async def test_of_a_topology_who_wrote_it_is_kept_and_not_what(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    written: dict[str, Any] = {"f:zones": {"secret": {}}, "f:metadata": {"f:annotations": {}}}
    entry = {"manager": "nfd", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": written}
    api.put({**nrt("c"), "metadata": {"name": "c", "managedFields": [entry]}})

    found = await collect.collect(Connection(kubeconfig()))

    [metadata] = [item["metadata"] for item in found["items"] if item["kind"] == "NodeResourceTopology"][1:]
    assert metadata == {
        "name": "c",
        "managedFields": [{"manager": "nfd", "fieldsV1": {"f:zones": {}}}],
    }


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>a proxy", "the list of nodes is not JSON"),
        (b"[" * 100_000, "the list of nodes is nested deeper than"),
        (b'{"items": 1}', "items: must be a list, not a number"),
        (b'{"items": [1]}', "items[0]: must be an object, not a number"),
        (b'{"metadata": {"continue": 1}}', "metadata.continue: must be a string"),
        (b"[]", "must be an object, not a list"),
    ],
    ids=["no JSON", "too deep", "no list", "no object", "no mark", "a list at the top"],
)
async def test_an_answer_that_makes_no_sense_is_told(
    api: FakeApi, kubeconfig: Kubeconfig, body: bytes, sentence: str
) -> None:
    api.oddities["/api/v1/nodes"] = body

    with pytest.raises(Unreachable, match=re.escape(sentence)):
        await collect.collect(Connection(kubeconfig()))


async def test_nobody_listening_is_unreachable(kubeconfig: Kubeconfig) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{probe.getsockname()[1]}"

        with pytest.raises(Unreachable, match=f"{server} cannot be reached"):
            await collect.collect(Connection(kubeconfig(server=server)))


async def test_a_server_that_speaks_no_tls_is_unreachable(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        await collect.collect(Connection(kubeconfig(server=api.url.replace("http:", "https:"))))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "cannot be used"),
        ("words", "cannot be used"),
        ("[1]", "cannot be used"),
        ("a: [", "cannot be used"),
        ("a: " + "[" * 5000, "is nested deeper than 100 levels"),
        ("clusters: []\ncontexts: []\nusers: []", "cannot be used: .*current-context"),
        ("current-context: x\ncontexts: []", "cannot be used: .*x"),
        (
            (
                "clusters: [{name: c, cluster: {}}]\nusers: []\n"
                "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x"
            ),
            "a part of it is missing",
        ),
    ],
    ids=[
        "empty",
        "a scalar",
        "a list",
        "no YAML",
        "too deep",
        "no current context",
        "no such context",
        "no server",
    ],
)
async def test_a_broken_kubeconfig_is_told(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(Unconfigured, match=sentence) as raised:
        await collect.collect(Connection(str(path)))
    assert str(path) in str(raised.value)


async def test_who_asks_where_is_told_if_it_cannot_be(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match=r"there is no kubeconfig at .*: name another file or context"):
        await collect.collect(Connection(str(tmp_path / "none")))
    with pytest.raises(Unconfigured, match=r"cannot be used: .*other"):
        await collect.collect(Connection(kubeconfig(), "other"))
    with pytest.raises(Unauthorized, match="log in again"):
        await collect.collect(Connection(kubeconfig(token="wrong")))  # noqa: S106  it is the wrong one


async def test_the_environment_names_the_kubeconfig(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{kubeconfig()}")

    assert len((await collect.collect())["items"]) == 4


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", inspect.getdoc(errors) or "")

    assert drawn == [*below(ClusterError)]


def below(error: type[ClusterError]) -> Iterator[str]:
    """The names of those that are such errors, each before its own; programs have some of their own."""
    for each in error.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each.__name__
            yield from below(each)


SHAPES = "/api/v1/namespaces/numalign/configmaps/numalign-shapes"


def install(api: FakeApi, **data: str) -> None:
    service = {"namespace": "numalign", "name": "numalign"}
    api.put(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "zz-numalign"},
            "webhooks": [{"clientConfig": {"service": service}}],
        }
    )
    metadata = {"name": "numalign-shapes", "namespace": "numalign"}
    if data:
        api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def test_what_is_remembered_is_collected_where_numalign_is_installed(
    api: FakeApi, kubeconfig: Kubeconfig
) -> None:
    install(api, losses="{}")

    found = await collect.collect(Connection(kubeconfig()))
    assert found["items"][-1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "numalign-shapes", "namespace": "numalign"},
        "data": {"losses": "{}"},
    }


async def test_nothing_is_remembered_where_nobody_wrote_it_down(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    install(api)

    assert "ConfigMap" not in {kind for _, kind, _ in kinds(await collect.collect(Connection(kubeconfig())))}


DEVICE_CLASSES = "/apis/resource.k8s.io/{}/deviceclasses"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_device_classes_are_collected_in_the_version_that_is_served(
    api: FakeApi, kubeconfig: Kubeconfig, version: str
) -> None:
    gpus = {"metadata": {"name": "gpus"}, "spec": {"config": [], "selectors": []}}
    api.not_served = {DEVICE_CLASSES.format("v1")}
    api.documents[DEVICE_CLASSES.format(version)] = {"items": [gpus]}

    found = await collect.collect(Connection(kubeconfig()))
    assert found["items"][-1] == {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {},
    }


async def test_what_volcanos_exporter_tells_is_collected(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    told = numatopology()
    api.documents[NUMATOPOLOGIES] = {
        "items": [{**told, "metadata": {"name": "a", "annotations": {"x": "1"}}}]
    }

    found = await collect.collect(Connection(kubeconfig()))
    assert found["items"][-1] == told


NUMATOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
DENIED = {
    "deviceclasses": DEVICE_CLASSES.format("v1"),
    "numatopologies": NUMATOPOLOGIES,
    "ConfigMap numalign-shapes": SHAPES,
}


@pytest.mark.parametrize(("what", "path"), DENIED.items(), ids=DENIED)
async def test_what_may_not_be_seen_is_told_and_left_out(
    api: FakeApi, kubeconfig: Kubeconfig, what: str, path: str
) -> None:
    install(api, losses="{}")
    api.failures[path] = HTTPStatus.FORBIDDEN
    told: list[str] = []

    found = await collect.collect(Connection(kubeconfig()), left_out=lambda what, _: told.append(what))
    assert (told, len(found["items"])) == ([what], 4 if what.startswith("ConfigMap") else 5)
