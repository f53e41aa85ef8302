"""The API server of the tests does what a real one does, where the tests rely on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.fake_api import FakeApi
from numalign.kube.client import (
    Api,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    Patch,
    Unauthorized,
    Unreachable,
    connected,
)

Json = dict[str, Any]

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numa/leases"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def topology(name: str) -> Json:
    api_version = "topology.node.k8s.io/v1alpha2"
    return {"apiVersion": api_version, "kind": "NodeResourceTopology", "metadata": {"name": name}}


def lease(name: str, **metadata: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {},
    }


def hooks(*webhooks: Json) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "x"},
        "webhooks": list(webhooks),
    }


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """Three nodes."""
    async with FakeApi() as running:
        for name in "abc":
            running.put(node(name))
        yield running


@pytest.fixture
async def client(server: FakeApi) -> AsyncIterator[Api]:
    async with server.client() as asking:
        yield asking


async def heard(client: Api, *, since: str, silence: float = 5) -> list[Json]:
    """All events of a watch of nodes."""
    query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", since)]
    said = client.lines(NODES, query, what="nodes", silence=silence)
    return [orjson.loads(line) async for line in said if line]


async def watched(server: FakeApi) -> None:
    """Wait until somebody watches nodes."""
    async with asyncio.timeout(20):
        while not server.watching("Node"):  # noqa: ASYNC110  a server tells nobody who watches
            await asyncio.sleep(0.001)


async def heard_until(
    server: FakeApi, client: Api, act: Callable[[], object], *, silence: float = 5
) -> list[str]:
    """The types of the events of a watch from now on, when something is done."""
    listening = asyncio.create_task(heard(client, since=str(server.version), silence=silence))
    await watched(server)
    act()
    return [event["type"] for event in await listening]


async def test_a_list_comes_in_pages_of_one_moment(server: FakeApi, client: Api) -> None:
    first: Any = await client.get(NODES, [("limit", "2")], what="nodes")
    server.delete(f"{NODES}/c")
    following = first["metadata"]["continue"]
    second: Any = await client.get(NODES, [("limit", "2"), ("continue", following)], what="nodes")

    assert [item["metadata"]["name"] for item in (*first["items"], *second["items"])] == ["a", "b", "c"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"] == "1003"
    assert (first["kind"], "kind" in first["items"][0]) == ("NodeList", False)


async def test_custom_objects_repeat_their_kind_in_lists(server: FakeApi, client: Api) -> None:
    server.put(topology("a"))
    found: Any = await client.get(TOPOLOGIES, what="x")

    assert found["items"][0]["kind"] == "NodeResourceTopology"


async def test_a_page_of_before_a_compaction_is_gone(server: FakeApi, client: Api) -> None:
    first: Any = await client.get(NODES, [("limit", "2")], what="nodes")
    server.compact()

    with pytest.raises(Gone, match="too old"):
        await client.get(NODES, [("continue", first["metadata"]["continue"])], what="nodes")


async def test_a_watch_replays_what_happened_and_goes_on(server: FakeApi, client: Api) -> None:
    server.delete(f"{NODES}/a")

    def act() -> None:
        server.put(node("b", x="y"))
        server.put(node("b", x="y"))
        server.bookmark()
        server.end()

    assert await heard_until(server, client, act) == ["MODIFIED", "BOOKMARK"]
    types = asyncio.create_task(heard(client, since="1002"))
    await watched(server)
    server.end()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in await types] == [
        ("ADDED", "c"),
        ("DELETED", "a"),
        ("MODIFIED", "b"),
    ]


async def test_a_watch_of_compacted_history_is_gone_one_way_or_the_other(
    server: FakeApi, client: Api
) -> None:
    server.put(node("d"))
    server.compact()
    with pytest.raises(Gone, match="too old resource version: 1003"):
        await heard(client, since="1003")
    server.gone_as_event = True

    (event,) = await heard(client, since="1003")
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_watch_of_the_future_is_refused(client: Api) -> None:
    with pytest.raises(Unreachable, match=r"504 for nodes \(Too large resource version: 5000"):
        await heard(client, since="5000")


@pytest.mark.parametrize("half_line", [False, True], ids=["between lines", "inside a line"])
async def test_a_watch_that_is_cut_is_a_broken_connection(
    server: FakeApi,
    client: Api,
    half_line: bool,  # noqa: FBT001  a parameter of pytest
) -> None:
    with pytest.raises(Unreachable, match="not completed"):
        await heard_until(server, client, lambda: server.cut(half_line=half_line))


async def test_a_silent_server_neither_speaks_nor_ends(server: FakeApi, client: Api) -> None:
    server.silent = True
    with pytest.raises(Unreachable, match="Timeout"):
        await heard_until(server, client, server.bookmark, silence=0.05)


async def test_a_server_that_was_stopped_comes_back_where_it_was(server: FakeApi, client: Api) -> None:
    await server.stop()
    with pytest.raises(Unreachable):
        await client.get(NODES, what="nodes")
    await server.start()

    assert await client.get(f"{NODES}/a", what="node a") == server.get(f"{NODES}/a")


async def test_a_restored_server_has_the_objects_with_older_versions(server: FakeApi) -> None:
    for index in range(9):
        server.put(node("a", at=str(index)))
    before = server.version
    server.rewind()

    assert server.version < before
    assert [found["metadata"]["name"] for found in server.all(NODES)] == ["a", "b", "c"]


async def test_an_object_is_made_once(server: FakeApi, client: Api) -> None:
    made: Any = await client.create(LEASES, lease("x"), what="the lease")

    assert made == server.get(f"{LEASES}/x")
    assert made["metadata"]["namespace"] == "numa"
    with pytest.raises(Conflict, match="already exists"):
        await client.create(LEASES, lease("x"), what="the lease")


async def test_an_object_is_replaced_only_by_who_has_seen_it(server: FakeApi, client: Api) -> None:
    made: Any = await client.create(LEASES, lease("x"), what="the lease")
    changed: Any = await client.replace(f"{LEASES}/x", {**made, "spec": {"a": 1}}, what="the lease")

    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(Conflict, match="has been modified"):
        await client.replace(f"{LEASES}/x", {**made, "spec": {"a": 2}}, what="the lease")
    with pytest.raises(Unreachable, match="must be specified for an update"):
        await client.replace(f"{LEASES}/x", lease("x"), what="the lease")
    assert server.get(f"{LEASES}/x") == changed


async def test_a_merge_patch_takes_lists_whole_and_null_away(server: FakeApi, client: Api) -> None:
    server.put(node("a", x="1", y="2"))
    change = {"metadata": {"labels": {"x": None, "z": "3"}}, "spec": {"taints": [1]}}
    await client.patch(f"{NODES}/a", change, how=Patch.MERGE, what="node a")

    found = server.get(f"{NODES}/a")
    assert found is not None
    assert (found["metadata"]["labels"], found["spec"]) == ({"y": "2", "z": "3"}, {"taints": [1]})


async def test_a_strategic_patch_finds_webhooks_by_name(server: FakeApi, client: Api) -> None:
    server.put(hooks({"name": "a", "x": 1}, {"name": "b", "x": 1}))
    change = {"webhooks": [{"name": "b", "clientConfig": {"caBundle": "Zm9v"}}]}
    await client.patch(f"{HOOKS}/x", change, how=Patch.STRATEGIC, what="the hooks")

    found = server.get(f"{HOOKS}/x")
    assert found is not None
    assert found["webhooks"] == [
        {"name": "a", "x": 1},
        {"name": "b", "x": 1, "clientConfig": {"caBundle": "Zm9v"}},
    ]


async def test_a_patch_that_changes_nothing_is_no_event(server: FakeApi, client: Api) -> None:
    version = server.version
    await client.patch(f"{NODES}/a", {"metadata": {"labels": {}}}, how=Patch.STRATEGIC, what="node a")

    assert server.version == version


async def test_a_patch_with_an_old_version_is_a_conflict(client: Api) -> None:
    with pytest.raises(Conflict):
        await client.patch(
            f"{NODES}/a", {"metadata": {"resourceVersion": "1"}}, how=Patch.MERGE, what="node a"
        )


ODD_REQUESTS: dict[str, tuple[Callable[[Api], Awaitable[object]], type[ClusterError], str]] = {
    "a missing object": (lambda api: api.get(f"{NODES}/x", what="x"), NotFound, 'nodes "x" not found'),
    "a missing kind": (lambda api: api.get("/api/v1/cats", what="x"), NotFound, "404 page not found"),
    "a body that is none": (lambda api: api.create(LEASES, [], what="x"), Unreachable, "400 for x"),
    "a body of another kind": (lambda api: api.create(LEASES, node("x"), what="x"), Unreachable, "no Lease"),
    "another namespace": (
        lambda api: api.create(LEASES, lease("x", namespace="y"), what="x"),
        Unreachable,
        "namespace of the object does not match",
    ),
    "no name": (lambda api: api.create(LEASES, lease(""), what="x"), Unreachable, "422 for x"),
    "a version before birth": (
        lambda api: api.create(LEASES, lease("x", resourceVersion="1"), what="x"),
        Unreachable,
        "should not be set",
    ),
    "a patch of nothing": (
        lambda api: api.patch(f"{NODES}/x", {}, how=Patch.MERGE, what="x"),
        NotFound,
        "not found",
    ),
    "a strategic patch of a custom object": (
        lambda api: api.patch(f"{TOPOLOGIES}/a", {}, how=Patch.STRATEGIC, what="x"),
        Unreachable,
        "415 for x",
    ),
    "a version that is none": (lambda api: heard(api, since="x"), Unreachable, "400 for nodes"),
}


@pytest.mark.parametrize(("act", "error", "message"), ODD_REQUESTS.values(), ids=ODD_REQUESTS)
async def test_an_odd_request_is_refused(
    server: FakeApi,
    client: Api,
    act: Callable[[Api], Awaitable[object]],
    error: type[ClusterError],
    message: str,
) -> None:
    server.put(topology("a"))
    with pytest.raises(error, match=message):
        await act(client)


async def test_failures_can_be_told_by_path_and_by_method(server: FakeApi, client: Api) -> None:
    server.failures["LIST", NODES] = HTTPStatus.FORBIDDEN
    with pytest.raises(Forbidden):
        await client.get(NODES, what="nodes")
    await client.get(f"{NODES}/a", what="node a")
    server.failures = {f"{NODES}/a": HTTPStatus.NOT_FOUND}

    with pytest.raises(NotFound):
        await client.get(f"{NODES}/a", what="node a")


async def test_requests_are_kept(server: FakeApi, client: Api) -> None:
    await client.get(NODES, [("limit", "1")], what="nodes")
    await client.patch(f"{NODES}/a", {"x": 1}, how=Patch.MERGE, what="node a")

    assert [(each.method, each.path, each.query, each.body) for each in server.requests] == [
        ("GET", NODES, {"limit": "1"}, None),
        ("PATCH", f"{NODES}/a", {}, {"x": 1}),
    ]


async def test_who_has_no_token_stays_outside() -> None:
    async with FakeApi(token="secret") as server, server.client() as client:  # noqa: S106  of a test
        await client.get(NODES, what="nodes")
        server.token = "another"  # noqa: S105  as above
        with pytest.raises(Unauthorized):
            await client.get(NODES, what="nodes")


async def test_its_kubeconfig_leads_to_it(server: FakeApi, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path / "config", namespace="numa")
    async with connected(kubeconfig=str(path)) as api:
        assert api.namespace == "numa"
        assert await api.get(f"{NODES}/a", what="node a") == server.get(f"{NODES}/a")


# Parts of objects; how pods are bound is shown in test_bindings.py.

BINDING: Json = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "p"},
    "target": {"kind": "Node", "name": "a"},
}

BROKEN_BINDINGS: dict[str, object] = {
    "nothing": None,
    "another kind": {**BINDING, "kind": "Pod"},
    "another name": {**BINDING, "metadata": {"name": "q"}},
    "no node": {**BINDING, "target": {}},
    "no Node": {**BINDING, "target": {"kind": "Machine", "name": "a"}},
}


@pytest.mark.parametrize("body", BROKEN_BINDINGS.values(), ids=BROKEN_BINDINGS)
async def test_a_binding_that_makes_no_sense_changes_nothing(
    server: FakeApi, client: Api, body: object
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    before = server.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})

    with pytest.raises(Unreachable, match=r"answered 4\d\d"):
        await client.create(f"{pods}/p/binding", body, what="a binding")
    assert server.get(f"{pods}/p") == before
    await client.create(f"{pods}/p/binding", BINDING, what="a binding")
    assert server.get(f"{pods}/p") != before


@pytest.mark.parametrize("path", [f"{NODES}/a/binding", f"{NODES}/a/status", f"{NODES}/a/b/c"])
async def test_a_part_that_nobody_serves_is_not_there(client: Api, path: str) -> None:
    with pytest.raises(NotFound):
        await client.create(path, BINDING, what="a binding")
    with pytest.raises(NotFound):
        await client.get(path, what="a part")
