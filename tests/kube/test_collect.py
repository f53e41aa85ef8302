"""A running cluster, asked over HTTP: what comes back, and what is said when it does not."""

import inspect
import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from numalign.kube import client as cluster_api
from numalign.kube import collect
from numalign.kube.client import (
    ClusterError,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
    Unconfigured,
    Unreachable,
)
from numalign.kube.files import snapshot

# The fixtures of conftest.py: a server whose fields tell it what to do, and a writer of kubeconfigs.
Api = Any
Kubeconfig = Callable[..., str]

V1ALPHA1 = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
NAMESPACES = "/api/v1/namespaces"
V1ALPHA2 = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def kinds(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in found["items"]]


async def test_a_cluster_is_collected_as_a_list_that_says_each_kind(kubeconfig: Kubeconfig) -> None:
    found = await collect.collect(kubeconfig=kubeconfig())

    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert kinds(found) == [
        ("v1", "Node", "a"),
        ("v1", "Node", "b"),
        ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", "a"),
        ("v1", "Namespace", "default"),
    ]


async def test_what_was_collected_is_a_snapshot(kubeconfig: Kubeconfig) -> None:
    seen = snapshot.of([await collect.collect(kubeconfig=kubeconfig(), with_pods=True)])

    assert (seen.unknown, seen.pods, list(seen.namespaces)) == (("a", "b"), 1, ["default"])
    assert [(problem.kind, problem.name) for problem in seen.problems] == [("NodeResourceTopology", "a")]


async def test_a_long_list_comes_in_pages(api: Api, kubeconfig: Kubeconfig) -> None:
    api.page, api.lists["/api/v1/nodes"] = 2, [named(f"n{index}") for index in range(5)]

    found = await collect.collect(kubeconfig=kubeconfig())

    assert [name for _, kind, name in kinds(found) if kind == "Node"] == ["n0", "n1", "n2", "n3", "n4"]
    queries = [query for path, query in api.asked if path == "/api/v1/nodes"]
    assert queries == [
        {"limit": "500"},
        {"limit": "500", "continue": "2"},
        {"limit": "500", "continue": "4"},
    ]


async def test_a_list_whose_next_page_is_gone_is_read_again_as_a_whole(
    api: Api, kubeconfig: Kubeconfig
) -> None:
    api.page, api.expire_after = 2, 3
    api.lists["/api/v1/nodes"] = [named(f"n{index}") for index in range(5)]

    found = await collect.collect(kubeconfig=kubeconfig())

    assert [name for _, kind, name in kinds(found) if kind == "Node"] == ["n0", "n1", "n2", "n3", "n4"]
    assert [query for path, query in api.asked if path == "/api/v1/nodes"][-1] == {}


async def test_an_older_exporter_is_read_too(api: Api, kubeconfig: Kubeconfig) -> None:
    api.lists[V1ALPHA1] = api.lists.pop(V1ALPHA2)

    found = await collect.collect(kubeconfig=kubeconfig())

    assert ("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", "a") in kinds(found)


async def test_only_what_is_read_leaves_the_cluster(api: Api, kubeconfig: Kubeconfig) -> None:
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
    api.lists["/api/v1/pods"] = [
        {
            "metadata": {"name": "p", "namespace": "n", "annotations": annotations, "managedFields": [{}]},
            "spec": {"containers": [container], "volumes": []},
        }
    ]
    api.lists["/api/v1/nodes"] = [
        {
            "metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"b": "c"}, "uid": "u"},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "secret"},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "message": "secret"}],
                "images": [{"names": ["secret"]}],
                "nodeInfo": {"kubeletVersion": "v1.34.4", "machineID": "secret", "systemUUID": "secret"},
            },
        }
    ]

    found = await collect.collect(kubeconfig=kubeconfig(), with_pods=True)

    assert found["items"][0] == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"x": "y"}, "uid": "u"},
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
        "metadata": {"name": "p", "namespace": "n", "annotations": {"numalign.io/policy": "restricted"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]},
    }


@pytest.mark.parametrize(
    ("asked", "usual", "expected"),
    [("team", "mine", "team"), (None, "mine", "mine"), (None, None, "default")],
    ids=["as asked", "of the context", "default"],
)
async def test_a_pod_is_found_in_its_namespace(
    api: Api, kubeconfig: Kubeconfig, asked: str | None, usual: str | None, expected: str
) -> None:
    api.lists[f"/api/v1/namespaces/{expected}/pods"] = [named("web")]

    found = await collect.pod("web", namespace=asked, kubeconfig=kubeconfig(namespace=usual))

    assert found == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}


async def test_a_name_cannot_lead_elsewhere(api: Api, kubeconfig: Kubeconfig) -> None:
    with pytest.raises(NotFound, match=re.escape("pod default/../../nodes/a is not there")):
        await collect.pod("../../nodes/a", kubeconfig=kubeconfig())
    assert [path for path, _ in api.asked] == ["/api/v1/namespaces/default/pods/../../nodes/a"]


LISTS_THAT_FAIL: list[tuple[str, HTTPStatus, type[Exception], str]] = [
    (NAMESPACES, HTTPStatus.UNAUTHORIZED, Unauthorized, "does not accept your credentials (as told"),
    (NAMESPACES, HTTPStatus.FORBIDDEN, Forbidden, "may not read the list of namespaces (as told"),
    (NAMESPACES, HTTPStatus.NOT_FOUND, NotFound, "the list of namespaces is not there (as told"),
    (NAMESPACES, HTTPStatus.GONE, Gone, "is too old to be had"),
    (NAMESPACES, HTTPStatus.TOO_MANY_REQUESTS, Unreachable, "answered 429"),
    (NAMESPACES, HTTPStatus.SERVICE_UNAVAILABLE, Unreachable, "answered 503"),
    (V1ALPHA2, HTTPStatus.FORBIDDEN, Forbidden, "ClusterRole with the verbs get and list on nodes"),
    (V1ALPHA2, HTTPStatus.NOT_FOUND, NotFound, "an exporter has to publish the zones"),
]


@pytest.mark.parametrize(("path", "code", "error", "sentence"), LISTS_THAT_FAIL)
async def test_a_failing_list_is_told(  # noqa: PLR0913, PLR0917  a row of the table
    api: Api, kubeconfig: Kubeconfig, path: str, code: HTTPStatus, error: type[Exception], sentence: str
) -> None:
    api.failures[path] = code

    with pytest.raises(error, match=re.escape(sentence)):
        await collect.collect(kubeconfig=kubeconfig())


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>a proxy", "the list of nodes is not JSON"),
        (b'{"items": 1}', "items: must be a list, not a number"),
        (b'{"items": [1]}', "items[0]: must be an object, not a number"),
        (b'{"metadata": {"continue": 1}}', "metadata.continue: must be a text"),
        (b"[]", "must be an object, not a list"),
    ],
    ids=["no JSON", "no list", "no object", "no mark", "a list at the top"],
)
async def test_an_answer_that_makes_no_sense_is_told(
    api: Api, kubeconfig: Kubeconfig, body: bytes, sentence: str
) -> None:
    api.oddities["/api/v1/nodes"] = body

    with pytest.raises(Unreachable, match=re.escape(sentence)):
        await collect.collect(kubeconfig=kubeconfig())


async def test_nobody_listening_is_unreachable(kubeconfig: Kubeconfig) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{probe.getsockname()[1]}"

        with pytest.raises(Unreachable, match=f"{server} cannot be asked"):
            await collect.collect(kubeconfig=kubeconfig(server=server))


async def test_a_server_that_speaks_no_tls_is_unreachable(api: Api, tmp_path: Path) -> None:
    server = api.url.replace("http:", "https:")
    path = tmp_path / "config"
    path.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )

    with pytest.raises(Unreachable, match="cannot be asked"):
        await collect.collect(kubeconfig=str(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "cannot be used"),
        ("words", "cannot be used"),
        ("[1]", "cannot be used"),
        ("a: [", "expected the node content"),
        ("clusters: []\ncontexts: []\nusers: []", "Expected key current-context"),
        ("current-context: x\ncontexts: []", "Expected object with name x"),
        (
            (
                "clusters: [{name: c, cluster: {}}]\nusers: []\n"
                "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x"
            ),
            "a part of it is missing",
        ),
    ],
    ids=["empty", "a scalar", "a list", "no YAML", "no current context", "no such context", "no server"],
)
async def test_a_broken_kubeconfig_is_told(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(Unconfigured, match=sentence) as raised:
        await collect.collect(kubeconfig=str(path))
    assert str(path) in str(raised.value)


async def test_who_asks_where_is_told_if_it_cannot_be(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    with pytest.raises(Unconfigured, match=r"there is no kubeconfig at .*: name another file or context"):
        await collect.collect(kubeconfig=str(tmp_path / "none"))
    with pytest.raises(Unconfigured, match="Expected object with name other"):
        await collect.collect(kubeconfig=kubeconfig(), context="other")
    with pytest.raises(Unauthorized, match="log in again"):
        await collect.collect(kubeconfig=kubeconfig(token="wrong"))  # noqa: S106  it is the wrong one


async def test_the_environment_names_the_kubeconfig(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{kubeconfig()}")

    assert len((await collect.collect())["items"]) == 4


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", inspect.getdoc(cluster_api) or "")

    assert drawn == [error.__name__ for error in ClusterError.__subclasses__()]


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CONFIG_MAPS = "/api/v1/namespaces/numalign/configmaps"


def install(api: Api, **data: str) -> None:
    service = {"namespace": "numalign", "name": "numalign"}
    api.lists[CONFIGURATIONS] = [
        {**named("zz-numalign"), "webhooks": [{"clientConfig": {"service": service}}]}
    ]
    api.lists[CONFIG_MAPS] = [{**named("numalign-shapes"), "data": data}] if data else []


async def test_what_is_remembered_is_collected_where_numalign_is_installed(
    api: Api, kubeconfig: Kubeconfig
) -> None:
    install(api, losses="{}")

    found = await collect.collect(kubeconfig=kubeconfig())
    assert found["items"][-1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "numalign-shapes", "namespace": "numalign"},
        "data": {"losses": "{}"},
    }


async def test_nothing_is_remembered_where_nobody_wrote_it_down(api: Api, kubeconfig: Kubeconfig) -> None:
    install(api)

    assert "ConfigMap" not in {kind for _, kind, _ in kinds(await collect.collect(kubeconfig=kubeconfig()))}


DEVICE_CLASSES = "/apis/resource.k8s.io/{}/deviceclasses"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_device_classes_are_collected_in_the_version_that_is_served(
    api: Api, kubeconfig: Kubeconfig, version: str
) -> None:
    api.lists[DEVICE_CLASSES.format(version)] = [{**named("gpus"), "spec": {"config": [], "selectors": []}}]

    found = await collect.collect(kubeconfig=kubeconfig())
    assert found["items"][-1] == {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {},
    }


DENIED = {
    "deviceclasses": DEVICE_CLASSES.format("v1"),
    "ConfigMap numalign-shapes": f"{CONFIG_MAPS}/numalign-shapes",
}


@pytest.mark.parametrize(("what", "path"), DENIED.items(), ids=DENIED)
async def test_what_may_not_be_seen_is_told_and_left_out(
    api: Api, kubeconfig: Kubeconfig, what: str, path: str
) -> None:
    install(api, losses="{}")
    api.failures[path] = HTTPStatus.FORBIDDEN
    told: list[str] = []

    found = await collect.collect(kubeconfig=kubeconfig(), left_out=lambda what, _: told.append(what))
    assert (told, len(found["items"])) == ([what], 5 if what == "deviceclasses" else 4)
