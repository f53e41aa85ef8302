"""What an agent may write, and of which node: a real API server reads that from its token.

The accounts, roles and policies are those that are shipped, and the tokens are ones that the API server made
for pods on nodes, as kubelets ask for them.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient
from prometheus_client import CollectorRegistry

from agent.amounts import SeenDevices
from agent.https import ApiServer
from agent.metrics import AgentMetrics
from agent.options import Publish
from agent.publisher import PodRecords, Publisher
from agent.report import NamedPlacement, NodeReport, report
from numalign.kube.access import Access
from numalign.kube.decode.kubelet_reports import PLACEMENTS
from tests.system.e2e.guarded import FOREIGN, Clients, change, denied, granted, impersonated, owner
from tests.unit.agent.observations import container, listed, observation
from tests.unit.agent.observations import pod as pod_of
from tests.worlds.log import RecordedLog
from tools.clusters import agents, fleets
from tools.clusters.agents import ACCOUNT, AGENT, HOME, TOPOLOGIES
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, Json, ask
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

EXPORTER = "system:serviceaccount:exporters:exporter"
HERE, THERE = "agents-here", "agents-there"
PODS = "/api/v1/namespaces/agents-team/pods"
OWN = f"{TOPOLOGIES}/{HERE}"

# As long as they may be.
ANNOTATIONS = {
    "numalign.io/machine": "m" * 96 * 1024,
    "numalign.io/placements": "p" * 128 * 1024,
    "numalign.io/observed-at": "2026-01-01T00:00:00Z",
}
OBSERVED = "numalign.io/placement-observed"
NO_POD = "00000000-0000-0000-0000-000000000000"

# As agent.annotatePods gives it, and as exporters have it.
ANNOTATING = granted("annotating", {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}, ACCOUNT)
EXPORTED = {
    "apiGroups": ["topology.node.k8s.io"],
    "resources": ["noderesourcetopologies"],
    "verbs": ["*"],
}

AGENTS = {"here": HERE, "there": THERE, "nowhere": ""}
"""The pods of agents, by the nodes on which they are."""


def pod(name: str, node: str) -> Json:
    metadata = {"name": name, "namespace": "agents-team"}
    spec = {"containers": [{"name": "main", "image": "registry.example/main"}], "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(plane: Plane, snapshot: object) -> AsyncIterator[Clients]:
    """Agents on two nodes and on none, one whose token is bound to no pod, an exporter, the administrator."""
    del snapshot  # The definition of topologies comes with it.
    async with (
        AsyncExitStack() as stack,
        plane.client("admin") as admin,
        impersonated(plane, **{EXPORTER: "system:authenticated"}) as others,
    ):
        store, found = Store(admin), {"admin": admin, "exporter": others[EXPORTER]}
        made = [
            *(fleets.node(name, fleets.LARGER) for name in (HERE, THERE)),
            *(namespace("agents-team", {}), *agents.objects(), *ANNOTATING),
            *granted("exporting", EXPORTED, EXPORTER),
            *(agents.pod(name, node) for name, node in AGENTS.items()),
            *(pod("near", HERE), pod("far", THERE)),
        ]
        for document in made:
            await store.apply(document)
        for name, bound_to in {**{each: each for each in AGENTS}, "unbound": None}.items():
            client = plane.client(await agents.token(admin, bound_to))
            found[name] = await stack.enter_async_context(client)

        async def in_force() -> bool:
            lie = await applied(found["here"], THERE, dryRun="All")
            other = await applied(found["exporter"], HERE, dryRun="All")
            return denied(lie, "numalign-agent") and denied(other, "numalign-topologies")

        await until(in_force, what="the policies were in force", child=plane.child, seconds=30)
        yield found
        # Nobody empties a namespace here, so that one that is deleted would be closed for good.
        for document in (each for each in reversed(made) if each["kind"] != "Namespace"):
            await ask(admin, "DELETE", await store.path(document), gracePeriodSeconds="0")


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def fresh(clients: Clients) -> AsyncIterator[None]:
    yield
    for node in (HERE, THERE):
        await ask(clients["admin"], "DELETE", f"{TOPOLOGIES}/{node}")


def topology(node: str, **metadata: object) -> Json:
    found = fleets.topology(node, fleets.LARGER)
    return {**found, "metadata": {"name": node, "annotations": ANNOTATIONS, **metadata}}


async def applied(api: ApiClient, node: str = HERE, **metadata: object) -> Answer:
    query = {key: str(metadata.pop(key)) for key in ("dryRun", "force") if key in metadata}
    body = topology(node, **metadata)
    return await ask(api, "PATCH", f"{TOPOLOGIES}/{node}", body, fieldManager=AGENT, **query)


# ---- what the program writes


@pytest_asyncio.fixture(loop_scope="session")
async def server(clients: Clients, plane: Plane) -> AsyncIterator[ApiServer]:
    """The API server as the agent's own program comes to it."""
    token = await agents.token(clients["admin"], "here")
    api = ApiServer(Access(plane.url, authority=str(plane.ca), token=token))
    yield api
    api.close()


def reported(*names: str) -> NodeReport:
    held = [listed(name, container("main", str(at))) for at, name in enumerate(names, start=1)]
    return report(observation(*(pod_of(name, name) for name in names), listed=held), SeenDevices())[0]


async def publish(
    clients: Clients,
    server: ApiServer,
    how: Publish,
    *reports: NodeReport,
    journal: RecordedLog | None = None,
) -> Json:
    """What the API server has once these reports were published one after another."""
    log, metrics = (journal or RecordedLog()).log, AgentMetrics(CollectorRegistry())
    publisher = Publisher(server, HERE, how, log=log, metrics=metrics)
    for each in reports:
        await publisher.publish(each)
    answer = await ask(clients["admin"], "GET", OWN)
    assert answer.code == HTTPStatus.OK, answer
    annotations = answer.body["metadata"]["annotations"]
    assert {key: annotations.get(key) for key in reports[-1].annotations} == reports[-1].annotations
    return answer.body


async def test_agent_publishes_its_node_and_changes(clients: Clients, server: ApiServer) -> None:
    last = reported("web", "db")
    found = await publish(clients, server, Publish.IF_ABSENT, reported(), reported("web"), last)
    assert found["zones"] == last.zones
    owners = found["metadata"]["ownerReferences"]
    assert [(each["kind"], each["name"]) for each in owners] == [("Node", HERE)]


async def test_agent_yields_to_an_exporter_unless_configured(clients: Clients, server: ApiServer) -> None:
    first = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, annotations={"a": "b"}))
    assert first.code == HTTPStatus.CREATED, first
    journal = RecordedLog()
    found = await publish(clients, server, Publish.IF_ABSENT, reported(), reported("web"), journal=journal)
    assert found["zones"] == first.body["zones"]
    assert found["metadata"]["annotations"]["a"] == "b"
    [line] = journal.of("topology.other_exporter")
    assert line["error"].startswith("Conflict: the topology of node agents-here was created or changed by")
    assert ".zones" in line["error"]
    last = reported("db")
    assert (await publish(clients, server, Publish.ALWAYS, last))["zones"] == last.zones


@pytest.mark.parametrize("there", [False, True], ids=["its own", "another's"])
async def test_agent_removes_its_annotation(clients: Clients, server: ApiServer, *, there: bool) -> None:
    if there:
        first = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, annotations={"a": "b"}))
        assert first.code == HTTPStatus.CREATED, first
    with_it = reported("web")
    without = replace(with_it, annotations={**with_it.annotations, PLACEMENTS: None})
    found = await publish(clients, server, Publish.IF_ABSENT, with_it, without)
    assert PLACEMENTS not in found["metadata"]["annotations"]


async def test_agent_annotates_its_pods_and_no_successor(clients: Clients, server: ApiServer) -> None:
    near = (await ask(clients["admin"], "GET", f"{PODS}/near")).body["metadata"]
    records = PodRecords(server, log=RecordedLog().log, metrics=AgentMetrics(CollectorRegistry()))
    records.keep(tuple(NamedPlacement(uid, "agents-team", "near", {}) for uid in (NO_POD, near["uid"])))
    await records.write_due()
    found = (await ask(clients["admin"], "GET", f"{PODS}/near")).body["metadata"]["annotations"]
    assert found == {OBSERVED: "[]"}


# ---- what it may not


async def test_agent_writes_the_topology_of_no_other_node(clients: Clients) -> None:
    made = await applied(clients["here"], THERE)
    assert denied(made, f"the agent of node {HERE} may write no NodeResourceTopology but that of its node")
    assert (await applied(clients["there"], THERE)).code == HTTPStatus.CREATED
    assert denied(await applied(clients["here"], THERE, force="true"), f"and not {THERE}")
    body = {"metadata": {"annotations": {"numalign.io/placements": None}}}
    assert denied(await change(clients["here"], f"{TOPOLOGIES}/{THERE}", body), f"and not {THERE}")
    for who in ("nowhere", "unbound"):
        assert denied(await applied(clients[who]), "an agent shows a token that was made for a pod on a node")


METADATA: dict[str, Json] = {
    **FOREIGN,
    "an annotation of pods": {"annotations": {OBSERVED: "[]"}},
    "another node as the owner": owner("Node", THERE),
}


@pytest.mark.parametrize("there", [False, True], ids=["new", "there already"])
@pytest.mark.parametrize("what", METADATA)
async def test_agent_changes_nothing_else_of_its_topology(
    clients: Clients, what: str, *, there: bool
) -> None:
    if there:
        assert (await applied(clients["here"])).code == HTTPStatus.CREATED
    assert denied(await applied(clients["here"], **METADATA[what]), "of the metadata of a NodeResource")


async def test_agent_keeps_what_others_wrote(clients: Clients) -> None:
    others = {"labels": {"team": "a"}, "annotations": {"a": "b"}, **owner()}
    wrote = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, **others))
    assert wrote.code == HTTPStatus.CREATED, wrote.body
    body: Json = {"metadata": {"annotations": {"numalign.io/machine": "{}"}}}
    assert (await change(clients["here"], OWN, body)).code == HTTPStatus.OK
    body = {"metadata": {"annotations": {"a": None}}}
    assert denied(await change(clients["here"], OWN, body), "of the metadata")


FORBIDDEN = [
    *(("DELETE", OWN), ("GET", TOPOLOGIES), ("GET", OWN), ("PUT", OWN)),
    *(("GET", "/api/v1/nodes"), ("GET", f"/api/v1/nodes/{HERE}/proxy/configz")),
    *(("GET", "/api/v1/pods"), ("GET", f"{PODS}/near"), ("DELETE", f"{PODS}/near")),
    *(("GET", "/api/v1/secrets"), ("GET", f"/api/v1/namespaces/{HOME}/configmaps")),
    ("POST", f"/api/v1/namespaces/{HOME}/pods"),
]


async def test_roles_give_an_agent_nothing_else(clients: Clients) -> None:
    bodies = {"POST": agents.pod("more", HERE), "PUT": topology(HERE)}
    answers = [
        (await ask(clients["here"], method, path, bodies.get(method))).code for method, path in FORBIDDEN
    ]
    assert answers == [HTTPStatus.FORBIDDEN] * len(FORBIDDEN)


async def test_agent_annotates_only_pods_of_its_node(clients: Clients) -> None:
    body: Json = {"metadata": {"annotations": {OBSERVED: "[]"}}}
    assert (await change(clients["here"], f"{PODS}/near", body)).code == HTTPStatus.OK
    far = await change(clients["here"], f"{PODS}/far", body)
    assert denied(far, f"the agent of node {HERE} may change no Pod but those of its node")
    # Nor what has the name of such a pod.
    body["metadata"]["uid"] = NO_POD
    answer = await change(clients["here"], f"{PODS}/near", body)
    assert answer.code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert {cause["field"] for cause in answer.body["details"]["causes"]} == {"metadata.uid"}


POD: dict[str, Json] = {
    **{what: {"metadata": metadata} for what, metadata in FOREIGN.items()},
    "what is reserved": {"metadata": {"annotations": {"numalign.io/placement": "[]"}}},
    "an annotation of nodes": {"metadata": {"annotations": {"numalign.io/machine": "{}"}}},
    "its image": {"spec": {"containers": [{"name": "main", "image": "registry.example/other"}]}},
}


@pytest.mark.parametrize("what", POD)
async def test_agent_changes_nothing_else_of_a_pod(clients: Clients, what: str) -> None:
    answer = await change(clients["here"], f"{PODS}/near", POD[what])
    assert denied(answer, f"nothing of a Pod but its annotation {OBSERVED}"), answer


# ---- what no other account may


@pytest.mark.parametrize("key", ANNOTATIONS)
async def test_only_the_agent_may_write_its_node_report(clients: Clients, key: str) -> None:
    lie = {"annotations": {key: "lie"}}
    new = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, **lie))
    assert denied(new, f"the annotation {key} may be written by {ACCOUNT} and by members of system:masters")
    assert f"and not by {EXPORTER}" in new.body["message"]
    assert (await applied(clients["here"])).code == HTTPStatus.CREATED
    changed = await change(clients["exporter"], OWN, {"metadata": lie})
    assert denied(changed, f"the annotation {key} "), changed


async def test_exporter_writes_its_zones(clients: Clients) -> None:
    by_master = await ask(clients["admin"], "POST", TOPOLOGIES, topology(HERE))
    assert by_master.code == HTTPStatus.CREATED, by_master
    zones = fleets.topology(HERE, fleets.SHAPES["cpu"])["zones"]
    kept = await ask(clients["exporter"], "PUT", OWN, {**by_master.body, "zones": zones})
    assert kept.code == HTTPStatus.OK, kept
    bare = {**kept.body, "metadata": {**kept.body["metadata"], "annotations": {}}}
    assert (await ask(clients["exporter"], "PUT", OWN, bare)).code == HTTPStatus.OK
