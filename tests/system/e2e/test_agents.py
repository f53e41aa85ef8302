"""What an agent may write, and of which node: a real API server reads that from its token.

The accounts, roles and policies are those that are shipped, and the tokens are ones that the API server made
for pods on nodes, as kubelets ask for them.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient
from prometheus_client import CollectorRegistry

from agent.amounts import SeenDevices
from agent.api_server import ApiServer
from agent.metrics import AgentMetrics
from agent.pod_records import PodRecords
from agent.publish import Publish
from agent.publisher import Publisher
from agent.report import NamedPlacement, NodeReport, report
from numalign.kube.access import Access
from numalign.runtime.logs import Log
from tests.system.e2e.guarded import change, denied, impersonated, owner
from tests.unit.agent.observations import container, listed, observation
from tests.unit.agent.observations import pod as pod_of
from tests.worlds.log import RecordedLog as Written
from tools.clusters import agents, fleets, shipped
from tools.clusters.agents import ACCOUNT, AGENT, HOME, TOPOLOGIES
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, Json, ask, create
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

pytestmark = [pytest.mark.asyncio(loop_scope="session")]

EXPORTER = "system:serviceaccount:exporters:exporter"
HERE, THERE = "agents-here", "agents-there"
GROUP = "topology.node.k8s.io"
PODS = "/api/v1/namespaces/agents-team/pods"
RBAC = "rbac.authorization.k8s.io"

# As long as they may be.
ANNOTATIONS = {
    "numalign.io/machine": "m" * 96 * 1024,
    "numalign.io/placements": "p" * 128 * 1024,
    "numalign.io/observed-at": "2026-01-01T00:00:00Z",
}
OBSERVED = "numalign.io/placement-observed"

Clients = Mapping[str, ApiClient]


@dataclass(frozen=True)
class Program:
    api: ApiServer
    log: Log
    metrics: AgentMetrics

    def publisher(self, publish: Publish) -> Publisher:
        return Publisher(self.api, HERE, publish, log=self.log, metrics=self.metrics)


def account(name: str, rules: list[Json], user: str) -> list[Json]:
    """A role that the chart does not give by default, and whom it is given to."""
    about = {"name": name}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": about, "rules": rules}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    return [role, binding]


# As agent.annotatePods gives it, and as exporters have it.
ANNOTATING = account("annotating", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}], ACCOUNT)
EXPORTING = account(
    "exporting", [{"apiGroups": [GROUP], "resources": ["noderesourcetopologies"], "verbs": ["*"]}], EXPORTER
)


def pod(name: str, node: str) -> Json:
    metadata = {"name": name, "namespace": "agents-team"}
    containers = [{"name": "main", "image": "registry.example/main"}]
    spec = {"containers": containers, "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


AGENTS = {"here": HERE, "there": THERE, "nowhere": ""}
"""The pods of agents, by the nodes on which they are."""
TEAM = {"near": HERE, "far": THERE}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(plane: Plane, snapshot: object) -> AsyncIterator[Clients]:
    """Agents on two nodes and on none, one whose token is bound to no pod, an exporter, the administrator."""
    del snapshot  # The definition of topologies comes with it.
    async with AsyncExitStack() as stack, plane.client("admin") as admin:
        store = Store(admin)
        made = [
            *(fleets.node(name, fleets.LARGER) for name in (HERE, THERE)),
            *(namespace("agents-team", {}), *agents.objects(), *ANNOTATING, *EXPORTING),
            *(agents.pod(name, node) for name, node in AGENTS.items()),
            *(pod(name, node) for name, node in TEAM.items()),
        ]
        [exporter] = (
            await stack.enter_async_context(impersonated(plane, **{EXPORTER: "system:authenticated"}))
        ).values()
        found = {"admin": admin, "exporter": exporter}
        for document in made:
            await store.apply(document)
        for name, bound_to in {**{each: each for each in AGENTS}, "unbound": None}.items():
            client = plane.client(await agents.token(admin, bound_to))
            found[name] = await stack.enter_async_context(client)

        async def in_force() -> bool:
            lie = await applied(found["here"], THERE, dryRun="All")
            other = await applied(exporter, HERE, dryRun="All")
            return denied(lie, "numalign-agent") and denied(other, "numalign-topologies")

        await until(in_force, what="the policies were in force", child=plane.child, seconds=30)
        yield found
        for document in reversed(made):
            await ask(admin, "DELETE", await store.path(document), gracePeriodSeconds="0")


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def fresh(clients: Clients) -> AsyncIterator[None]:
    yield
    for node in (HERE, THERE):
        await ask(clients["admin"], "DELETE", f"{TOPOLOGIES}/{node}")


def topology(node: str, **metadata: object) -> Json:
    found = fleets.topology(node, fleets.LARGER)
    return {**found, "metadata": {"name": node, "annotations": ANNOTATIONS, **metadata}}


async def applied(api: ApiClient, node: str, *, manager: str = AGENT, **metadata: object) -> Answer:
    query = {key: str(metadata.pop(key)) for key in ("dryRun", "force") if key in metadata}
    body = topology(node, **metadata)
    return await ask(api, "PATCH", f"{TOPOLOGIES}/{node}", body, fieldManager=manager, **query)


@pytest_asyncio.fixture(loop_scope="session")
async def program(clients: Clients, plane: Plane) -> AsyncIterator[Program]:
    token = await agents.token(clients["admin"], "here")
    api = ApiServer(Access(plane.url, authority=str(plane.ca), token=token))
    yield Program(api, Written().log, AgentMetrics(CollectorRegistry()))
    api.close()


# ---- its pods


@pytest.mark.parametrize(
    "file", sorted((shipped.MANIFESTS / "agent").glob("[!k]*.yaml")), ids=lambda file: file.stem
)
async def test_the_api_server_takes_every_object_that_is_shipped(clients: Clients, file: Path) -> None:
    for document in shipped.documents(file):
        answer = await Store(clients["admin"]).try_to_apply(document, dryRun="All", force="true")
        assert answer.code in {HTTPStatus.OK, HTTPStatus.CREATED}, answer.body
        assert answer.warnings == []


@pytest.mark.parametrize("level", ["privileged", "baseline"])
async def test_agent_pods_need_a_privileged_namespace(clients: Clients, level: str) -> None:
    [daemons] = shipped.documents(shipped.MANIFESTS / "agent" / "daemonset.yaml")
    template, label = daemons["spec"]["template"], "pod-security.kubernetes.io/enforce"
    home = namespace(f"agents-{level}", {label: level})
    await Store(clients["admin"]).apply(home)
    made = {**template, "metadata": {**template["metadata"], "name": "agent"}}
    answer = await create(clients["admin"], made, namespace=f"agents-{level}", dryRun="All")

    assert answer.code == (201 if level == "privileged" else 403), answer
    [own] = [each for each in agents.objects() if each["kind"] == "Namespace"]
    assert own["metadata"]["labels"][label] == "privileged"
    await Store(clients["admin"]).delete(home)


# ---- what the program writes


def reported(*names: str) -> NodeReport:
    held = [listed(name, container("main", str(at))) for at, name in enumerate(names, start=1)]
    return report(observation(*(pod_of(name, name) for name in names), listed=held), SeenDevices())[0]


async def stored(clients: Clients) -> Json:
    answer = await ask(clients["admin"], "GET", f"{TOPOLOGIES}/{HERE}")
    assert answer.code == HTTPStatus.OK, answer
    return answer.body


async def test_agent_publishes_its_node_and_changes(clients: Clients, program: Program) -> None:
    publisher = program.publisher(Publish.IF_ABSENT)
    for names in ((), ("web",), ("web", "db")):
        await publisher.publish(reported(*names))

    found, wanted = await stored(clients), reported("web", "db")
    assert found["zones"] == wanted.zones
    assert wanted.annotations.items() <= found["metadata"]["annotations"].items()
    assert [(owner["kind"], owner["name"]) for owner in found["metadata"]["ownerReferences"]] == [
        ("Node", HERE)
    ]


async def test_agent_yields_to_an_exporter_unless_configured(clients: Clients, program: Program) -> None:
    first = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, annotations={"a": "b"}))
    assert first.code == HTTPStatus.CREATED, first
    beside = program.publisher(Publish.IF_ABSENT)
    for names in ((), ("web",)):
        await beside.publish(reported(*names))
    found, wanted = await stored(clients), reported("web")
    assert found["zones"] == first.body["zones"]
    assert {"a": "b", **wanted.annotations}.items() <= found["metadata"]["annotations"].items()

    await program.publisher(Publish.ALWAYS).publish(reported("db"))
    found, wanted = await stored(clients), reported("db")
    assert found["zones"] == wanted.zones
    assert wanted.annotations.items() <= found["metadata"]["annotations"].items()


async def test_agent_annotates_its_pods_and_no_successor(clients: Clients, program: Program) -> None:
    near = (await ask(clients["admin"], "GET", f"{PODS}/near")).body["metadata"]
    records = PodRecords(program.api, log=program.log, metrics=program.metrics)
    gone = NamedPlacement("00000000-0000-0000-0000-000000000000", "agents-team", "near", {})
    records.keep((gone, NamedPlacement(near["uid"], "agents-team", "near", {})))
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
    answer = await change(clients["here"], f"{TOPOLOGIES}/{THERE}", body)
    assert denied(answer, f"and not {THERE}")


@pytest.mark.parametrize("who", ["nowhere", "unbound"])
async def test_token_of_no_node_writes_no_topology(clients: Clients, who: str) -> None:
    answer = await applied(clients[who], HERE)
    assert denied(answer, "an agent shows a token that was made for a pod on a node")


METADATA: dict[str, Json] = {
    "a label": {"labels": {"a": "b"}},
    "another annotation": {"annotations": {"a": "b"}},
    "an annotation of pods": {"annotations": {OBSERVED: "[]"}},
    "a finalizer": {"finalizers": ["example.com/stay"]},
    "another owner": owner(),
    "another node as the owner": owner("Node", THERE),
}


@pytest.mark.parametrize("there", [False, True], ids=["new", "there already"])
@pytest.mark.parametrize("what", METADATA)
async def test_agent_changes_nothing_else_of_its_topology(
    clients: Clients, what: str, *, there: bool
) -> None:
    if there:
        assert (await applied(clients["here"], HERE)).code == HTTPStatus.CREATED
    assert denied(await applied(clients["here"], HERE, **METADATA[what]), "of the metadata of a NodeResource")


async def test_agent_keeps_what_others_wrote(clients: Clients) -> None:
    others = {"labels": {"team": "a"}, "annotations": {"a": "b"}, **METADATA["another owner"]}
    wrote = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, **others))
    assert wrote.code == HTTPStatus.CREATED, wrote.body
    body: Json = {"metadata": {"annotations": {"numalign.io/machine": "{}"}}}
    assert (await change(clients["here"], f"{TOPOLOGIES}/{HERE}", body)).code == HTTPStatus.OK
    body = {"metadata": {"annotations": {"a": None}}}
    answer = await change(clients["here"], f"{TOPOLOGIES}/{HERE}", body)
    assert denied(answer, "of the metadata")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{TOPOLOGIES}/{HERE}"),
        ("GET", TOPOLOGIES),
        ("GET", f"{TOPOLOGIES}/{HERE}"),
        ("PUT", f"{TOPOLOGIES}/{HERE}"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/pods"),
        ("GET", f"{PODS}/near"),
        ("DELETE", f"{PODS}/near"),
        ("GET", "/api/v1/secrets"),
        ("GET", f"/api/v1/namespaces/{HOME}/configmaps"),
        ("GET", f"/api/v1/nodes/{HERE}/proxy/configz"),
        ("POST", f"/api/v1/namespaces/{HOME}/pods"),
    ],
)
async def test_roles_give_an_agent_nothing_else(clients: Clients, method: str, path: str) -> None:
    body = {"POST": agents.pod("more", HERE), "PUT": topology(HERE)}.get(method)
    assert (await ask(clients["here"], method, path, body)).code == HTTPStatus.FORBIDDEN


# ---- pods


async def patched(clients: Clients, name: str, body: Json) -> Answer:
    return await change(clients["here"], f"{PODS}/{name}", body)


async def test_an_agent_annotates_pods_of_its_node_and_no_others(clients: Clients) -> None:
    body = {"metadata": {"annotations": {OBSERVED: "[]"}}}
    assert (await patched(clients, "near", body)).code == HTTPStatus.OK
    assert denied(
        await patched(clients, "far", body),
        f"the agent of node {HERE} may change no Pod but those of its node",
    )


async def test_pod_with_a_reused_name_is_not_annotated(clients: Clients) -> None:
    other = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "annotations": {OBSERVED: "[]"}}}
    answer = await patched(clients, "near", other)
    assert answer.code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert {cause["field"] for cause in answer.body["details"]["causes"]} == {"metadata.uid"}


POD: dict[str, Json] = {
    **{what: {"metadata": METADATA[what]} for what in ("a label", "another annotation", "a finalizer")},
    "what is reserved": {"metadata": {"annotations": {"numalign.io/placement": "[]"}}},
    "an annotation of nodes": {"metadata": {"annotations": {"numalign.io/machine": "{}"}}},
    "an owner": {"metadata": METADATA["another owner"]},
    "its image": {"spec": {"containers": [{"name": "main", "image": "registry.example/other"}]}},
}


@pytest.mark.parametrize("what", POD)
async def test_agent_changes_nothing_else_of_a_pod(clients: Clients, what: str) -> None:
    answer = await patched(clients, "near", POD[what])
    assert denied(answer, f"nothing of a Pod but its annotation {OBSERVED}"), answer


# ---- what no other account may


@pytest.mark.parametrize("key", ANNOTATIONS)
async def test_only_the_agent_may_write_its_node_report(clients: Clients, key: str) -> None:
    lie = {"annotations": {key: "lie"}}
    new = await ask(clients["exporter"], "POST", TOPOLOGIES, topology(HERE, **lie))
    assert denied(new, f"the annotation {key} may be written by {ACCOUNT} and by members of system:masters")
    assert f"and not by {EXPORTER}" in new.body["message"]
    assert (await applied(clients["here"], HERE)).code == HTTPStatus.CREATED
    body = {"metadata": lie}
    changed = await change(clients["exporter"], f"{TOPOLOGIES}/{HERE}", body)
    assert denied(changed, f"the annotation {key} "), changed


async def test_exporter_writes_its_zones(clients: Clients) -> None:
    assert (await applied(clients["here"], HERE)).code == HTTPStatus.CREATED
    path = f"{TOPOLOGIES}/{HERE}"
    found = (await ask(clients["exporter"], "GET", path)).body
    zones = fleets.topology(HERE, fleets.SHAPES["cpu"])["zones"]
    kept = await ask(clients["exporter"], "PUT", path, {**found, "zones": zones})
    assert kept.code == HTTPStatus.OK, kept
    bare = {**kept.body, "metadata": {**kept.body["metadata"], "annotations": {}}}
    assert (await ask(clients["exporter"], "PUT", path, bare)).code == HTTPStatus.OK


async def test_system_masters_may_write_topologies(clients: Clients) -> None:
    answer = await ask(clients["admin"], "POST", TOPOLOGIES, topology(HERE))
    assert answer.code == HTTPStatus.CREATED, answer
