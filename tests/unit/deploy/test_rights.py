"""docs/explanation/security.md has every right that the chart gives; without one, the program reports it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from certs import authority, secret
from certs.secret import PairState
from controller.program import ControllerProgram
from controller.settings import ControllerSettings
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from numalign.model.intent import GATE, HEAL, PLACEMENT_GATE
from numalign.model.placement import Held
from numalign.runtime.clock import utc_now
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from scorer.program import ScorerProgram
from scorer.settings import ScorerSettings
from tests.worlds import faster, rights
from tests.worlds import webhook as world
from tests.worlds.log import RecordedLog
from tests.worlds.notation import bag, node
from tests.worlds.objects import namespace
from tests.worlds.pairs import MUTATING, VALIDATING, configuration
from tests.worlds.rights import NAMESPACE, Right, Row
from tests.worlds.served import Served
from tests.worlds.webhook import raw
from tools.clusters.fake_api import KINDS, FakeApi, Json
from tools.generate.manifests import EVERY_PART, Object, everything, made, of_test
from webhook.program import WebhookProgram
from webhook.settings import WebhookSettings

SINGLE = "single-numa-node"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
ANN = "token-of-ann"
HOME, TEAM, SECRET = "numalign-system", "team", "numalign-webhook-tls"
NODE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
POD = raw("cpu=2 mem=1Gi gpu=1", policy=SINGLE)

VERBS = {"get": "GET", "list": "LIST", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH"}
VERBS |= {"delete": "DELETE"}
REPORTS = "/apis/wgpolicyk8s.io/v1alpha2"
REPORT = f"{REPORTS}/namespaces/{TEAM}/policyreports/numalign"
APPLIED = frozenset({"policyreports", "clusterpolicyreports"})
"""What is created by applying it."""
WEB = f"/api/v1/namespaces/{TEAM}/pods/web"
PARTS = {
    "get nodes/proxy": "/api/v1/nodes/a/proxy/configz",
    "create pods/binding": f"{WEB}/binding",
    "create events": f"/api/v1/namespaces/{TEAM}/events",
    "create pods/eviction": f"{WEB}/eviction",
    "get pods": WEB,
    "get namespaces": f"/api/v1/namespaces/{TEAM}",
    "patch pods": WEB,
    "delete pods": f"{WEB}-0",
    "create tokenreviews": TOKEN_REVIEWS,
    "create subjectaccessreviews": ACCESS_REVIEWS,
    "get replicasets": f"/apis/apps/v1/namespaces/{TEAM}/replicasets/set",
    **dict.fromkeys(("create policyreports", "patch policyreports", "delete policyreports"), REPORT),
    **{
        f"{verb} clusterpolicyreports": f"{REPORTS}/clusterpolicyreports/numalign"
        for verb in ("create", "patch", "delete")
    },
}
"""Where what has no name of its own in a role is asked for."""

PROGRAMS: Mapping[str, tuple[Any, Any, tuple[str, ...]]] = {
    "webhook": (WebhookProgram, WebhookSettings, ("--port=0", f"--tls-secret={SECRET}")),
    "controller": (
        partial(ControllerProgram, clock=faster.clock),
        ControllerSettings,
        (
            f"--tls-secret={SECRET}",
            *("--map=true", "--map-port=0", "--gates=true", "--heal=true", "--heal-per-minute=600"),
            *("--policy-reports=true", "--owner-events=true"),
            *("--heal-owner-seconds=0", "--heal-node-seconds=0"),
        ),
    ),
    "scorer": (ScorerProgram, ScorerSettings, ("--port=0", "--insecure-http")),
}

NEEDED = [
    pytest.param(row, right, id=f"{row.program}: {right.verb} {right.resource} {right.name}".rstrip())
    for row in rights.rows()
    if row.program in PROGRAMS
    for right in row.rights
]


def request(right: Right) -> tuple[str, str]:
    """The request that the right allows."""
    path = PARTS.get(f"{right.verb} {right.resource}")
    if path is None:
        # Of topologies the newer version comes first.
        above = next(
            above
            for above, _, plural in (each.rpartition("/") for each in KINDS)
            if (plural, above.split("/")[2] if right.group else "") == (right.resource, right.group)
        )
        home = f"/namespaces/{HOME}" if right.where == NAMESPACE else ""
        path = f"{above}{home}/{right.resource}"
        # Who lists or watches one object asks for all by its name.
        listed = right.verb in {"list", "watch"}
        named = "" if listed else right.name or ("a" if right.verb == "patch" else "")
        path += f"/{named}" if named else ""
    applied = right.verb == "create" and right.resource in APPLIED
    return "PATCH" if applied else VERBS[right.verb], path


@dataclass
class Running(Served):
    """A program that runs with or without TLS, and what it said."""

    async def call(self, path: str, body: Json) -> Json:
        """What a scheduler or an API server is answered."""
        [listening] = self.journal.of("server.listening")
        where = self.url(path).replace("http", listening["scheme"])
        async with aiohttp.ClientSession() as session, session.post(where, json=body, ssl=False) as answer:
            found: Json = await answer.json()
            return found

    async def see(self, path: str, token: str) -> int:
        """The status of a page of the map."""
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(self.url(path)) as answer:
            return answer.status


@asynccontextmanager
async def running(api: FakeApi, folder: Path, name: str) -> AsyncIterator[Running]:
    """One of the programs, told to do all that it can."""
    program, settings, flags = PROGRAMS[name]
    kubeconfig = api.kubeconfig(folder / "kubeconfig", namespace=HOME)
    everything = (f"--kubeconfig={kubeconfig}", "--bind=127.0.0.1", "--metrics-port=0", "--drain-seconds=0")
    recorded, stop = RecordedLog(), Stop()
    chosen = load(settings, argv=[*everything, "--kubelet-configs=true", *flags], environ={}).settings
    task = asyncio.create_task(
        program(chosen, recorded.log, CollectorRegistry(), sleep=faster.sleep).serve(stop)
    )
    started = Running(recorded, task)
    try:
        await started.logged("server.listening")
        yield started
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lease(name: str) -> Json:
    """One that its last holder gave back."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": HOME, "name": name},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }


def kept(data: Mapping[str, str] | None) -> Json:
    """The certificate as it stands in its Secret, or with other data in its place."""
    pair = authority.issue(names=[f"numalign-webhook.{HOME}.svc"], days=1, now=utc_now())
    made: Json = dict(secret.render(PairState(pair), namespace=HOME, name=SECRET))
    return made if data is None else made | {"data": dict(data)}


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A node, a pod that waits, both webhook configurations, and nothing of ours yet."""
    async with FakeApi(people={ANN: "ann"}) as server:
        for each in world.snapshot({"a": NODE}, namespaces={TEAM: {}})["items"]:
            server.put(each)
        for kind in (MUTATING, VALIDATING):
            server.put(configuration(kind))
        server.documents[REPORTS] = {"resources": [{"name": name} for name in sorted(APPLIED)]}
        yield server


def prepare(api: FakeApi, row: Row, right: Right) -> None:
    """What has to be there for the right to be used."""
    if right.resource == "leases" and right.verb != "create":
        api.put(lease(right.name))
    if row.program == "webhook":
        api.put(kept(None))
    elif right.resource == "secrets" and right.verb != "create":
        # Ours and empty, so that it has to be written.
        api.put(kept({}))
    if right.resource in APPLIED and right.verb == "delete":
        namespaced = {"namespace": TEAM} if right.resource == "policyreports" else {}
        labels = {"app.kubernetes.io/managed-by": "numalign"}
        kind = "PolicyReport" if namespaced else "ClusterPolicyReport"
        metadata = {"name": "numalign", "labels": labels, **namespaced}
        api.put({"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": kind, "metadata": metadata})
    if right.resource == "configmaps" and right.verb != "create":
        metadata = {"namespace": HOME, "name": right.name}
        api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def put_pod(api: FakeApi, name: str, *, owner: str = "", status: Json | None = None, **spec: object) -> Json:
    """Create a pod of the team, of a ReplicaSet if an owner is named."""
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": "u1",
        "controller": True,
    }
    metadata = {**POD["metadata"], "namespace": TEAM, "name": name}
    metadata |= {"ownerReferences": [reference]} if owner else {}
    pod = {**POD, "metadata": metadata, "spec": {**POD["spec"], **spec}}
    return api.put(pod | ({"status": status} if status else {}))


async def bound(api: FakeApi, program: Running) -> None:
    """A pod is bound by a scheduler, and the scorer answers."""
    await program.until(program.ready)
    uid = put_pod(api, "web")["metadata"]["uid"]
    call = {"PodName": "web", "PodNamespace": TEAM, "PodUID": uid, "Node": "a"}

    async def answered() -> bool:
        why = (await program.call("/bind", call))["Error"]
        return not why or "not allowed to" in why

    await program.until(answered)


async def bounced(api: FakeApi, program: Running) -> None:
    """The kubelet refuses what was bound."""
    await bound(api, program)
    found = api.get(f"/api/v1/namespaces/{TEAM}/pods/web")
    assert found
    api.put({**found, "status": {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no"}})


async def gated(api: FakeApi, program: Running) -> None:
    """A pod waits behind the gate, where there are gates."""
    api.put(namespace(TEAM, **{GATE: "enabled"}))
    await program.until(program.ready)
    put_pod(api, "web", schedulingGates=[{"name": PLACEMENT_GATE}])


async def replaced(api: FakeApi, _program: Running) -> None:
    """The kubelet refused four pods of a ReplicaSet, and took the fifth, where that is to be healed."""
    api.put(namespace(TEAM, **{HEAL: "failed"}))
    for number in range(5):
        since = {"startTime": (utc_now() - timedelta(seconds=10 - number)).isoformat()}
        failure = {"phase": "Failed", "reason": "TopologyAffinityError"}
        status = {**since, **({"phase": "Running"} if number == 4 else failure)}
        put_pod(api, f"web-{number}", owner="set", status=status, nodeName="a")


async def misaligned(api: FakeApi, program: Running) -> None:
    """A pod runs in both zones of its node, and would be aligned on another."""
    await program.until(program.ready)
    for each in world.snapshot({"b": NODE}, namespaces={})["items"]:
        api.put(each)
    api.put(namespace(TEAM, **{HEAL: "running", GATE: "enabled"}))
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    made = put_pod(api, "web", owner="web", status=status, nodeName="a")
    held: Held = {("node-0",): bag("cpu=2 mem=1Gi"), ("node-1",): bag("gpu=1")}
    seen = write_placements({made["metadata"]["uid"]: ObservedPlacement(held, 0)})
    [topology] = [each for each in api.all(TOPOLOGIES) if each["metadata"]["name"] == "a"]
    api.put({**topology, "metadata": {**topology["metadata"], "annotations": {PLACEMENTS: seen}}})


async def below(api: FakeApi, _program: Running) -> None:
    """A pod of a ReplicaSet runs in a namespace that expects more of it."""
    api.put(namespace(TEAM, **{"numalign.io/warn": SINGLE}))
    lax = put_pod(api, "lax", owner="set", status={"phase": "Running"}, nodeName="a")
    api.put({**lax, "metadata": {**lax["metadata"], "annotations": {}}})


async def unreported(api: FakeApi, _program: Running) -> None:
    """There are reports of which nothing is to be said any more."""
    for node_name in ("a", "b"):
        api.delete(f"/api/v1/nodes/{node_name}")


async def unheard_of(api: FakeApi, program: Running) -> None:
    """A pod is created in a namespace of which the webhook has not heard."""
    await program.until(program.ready)
    api.delete(f"/api/v1/namespaces/{TEAM}")

    async def reviewed() -> bool:
        return "error" in await program.call("/validate", world.request(POD))

    await program.until(reviewed)


async def looked_at(_api: FakeApi, program: Running) -> None:
    """Somebody looks at the map."""
    await program.until(program.ready)
    await program.see("/api/fleet", ANN)


OCCASIONS: Mapping[str, Callable[[FakeApi, Running], Awaitable[object]]] = {
    "webhook: get namespaces": unheard_of,
    "scorer: create pods/binding": bound,
    "scorer: create events": bounced,
    "controller: create tokenreviews": looked_at,
    "controller: create subjectaccessreviews": looked_at,
    "controller: get pods": gated,
    "controller: patch pods": gated,
    "controller: create events": gated,
    "controller: delete pods": replaced,
    "controller: get namespaces": replaced,
    "controller: create pods/eviction": misaligned,
    "controller: get replicasets": below,
    "controller: create policyreports": below,
    "controller: patch policyreports": below,
    "controller: delete clusterpolicyreports": unreported,
}
"""What has to happen for the right to be used."""


@pytest.mark.full
@pytest.mark.parametrize(("row", "right"), NEEDED)
async def test_missing_right_is_reported_as_documented(
    api: FakeApi, tmp_path: Path, row: Row, right: Right
) -> None:
    prepare(api, row, right)
    api.failures[request(right)] = HTTPStatus.FORBIDDEN
    async with running(api, tmp_path, row.program) as program:
        if happen := OCCASIONS.get(f"{row.program}: {right.verb} {right.resource}"):
            await happen(api, program)
        for event in row.events:
            await program.logged(event)

        assert row.events
        # Who may list and not watch has been ready once, and goes on with what he knows.
        if "not ready" in row.without and right.verb != "watch":
            assert not await program.ready()


@pytest.mark.parametrize("name", PROGRAMS)
async def test_no_right_is_missing(api: FakeApi, tmp_path: Path, name: str) -> None:
    if name == "webhook":
        api.put(kept(None))
    events = {event for row in rights.rows() if row.program == name for event in row.events}
    async with running(api, tmp_path, name) as program:
        await program.until(program.ready)
        if name == "scorer":
            await bounced(api, program)
        if name == "controller":
            assert await program.see("/api/fleet", ANN) == HTTPStatus.OK
            await gated(api, program)
            await program.logged("gate.lifted")
            await replaced(api, program)
            await program.logged("refused.removed")
            await misaligned(api, program)
            await program.logged("healing.evicted")
        await asyncio.sleep(0.1)

    assert {event for event in events if program.journal.of(event)} <= {"bind.refused"}


ROWS = rights.rows()

# How each value of the tables is met, and how it is not.
VALUES = {
    **{
        name: (f"{name}=true", f"{name}=false")
        for name in (
            *("labelNodes", "countPods", "kubeletConfigs.enabled", "gates.enabled", "heal.enabled"),
            *("map.enabled", "policyReports.enabled", "ownerEvents.enabled"),
            *("agent.nodeProxy", "agent.annotatePods"),
        )
    },
    "tls.source: own": ("tls.source=own", "tls.source=cert-manager"),
    "scorer.reserveAt: bind": ("scorer.reserveAt=bind", "scorer.reserveAt=prioritize"),
    "agent.kubeletConfig": ("agent.kubeletConfig=/etc/kubelet.yaml", "agent.kubeletConfig="),
    "helm test": ("", ""),
}
BY_DEFAULT = frozenset({"labelNodes", "countPods", "tls.source: own", "scorer.reserveAt: bind"})
# What is given without one of them.
WITHOUT = {'agent.kubeletConfig: ""': "agent.kubeletConfig"}
SETS = [frozenset(each) for each in (VALUES.keys(), *(VALUES.keys() - {each} for each in VALUES), ())]


def given(found: list[Object], program: str) -> tuple[Counter[Right], set[str]]:
    """The rights of a program's account, and the roles of others that it is bound to."""
    roles = {
        (each["kind"], each["metadata"]["name"]): each for each in found if each["kind"].endswith("Role")
    }
    counted, foreign = Counter[Right](), set[str]()
    for binding in (each for each in found if each["kind"].endswith("RoleBinding")):
        if [subject["name"] for subject in binding["subjects"]] != [f"numalign-{program}"]:
            continue
        ref = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        if ref in roles:
            counted.update(rights.of_role(roles[ref]))
        else:
            foreign.add(ref[1])
    return counted, foreign


def documented(program: str, values: frozenset[str]) -> tuple[Counter[Right], set[str]]:
    """What the page says of it."""
    met = values | {row for row, value in WITHOUT.items() if value not in values}
    rows = [row for row in ROWS if row.program == program and row.given_with(met)]
    return Counter(right for row in rows for right in row.rights), {r for row in rows for r in row.roles}


def test_every_right_has_a_reason_and_its_value_is_tested() -> None:
    assert [row for row in ROWS if not (row.reason and row.without and (row.rights or row.roles))] == []
    assert {value for row in ROWS for value in row.values} == VALUES.keys() | WITHOUT.keys()


def test_writes_of_the_controller_are_documented() -> None:
    written = {
        (right.verb, right.resource)
        for row in ROWS
        for right in row.rights
        if row.program == "controller" and right.verb in rights.WRITES
    }
    assert rights.writes_of_the_controller() == written


@pytest.mark.parametrize("program", rights.PROGRAMS)
def test_page_lists_the_rights_of_the_manifests(program: str) -> None:
    assert given(everything(), program) == documented(program, BY_DEFAULT)


@pytest.mark.packaging
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("values", SETS, ids=lambda values: ", ".join(sorted(values)) or "none")
async def test_page_lists_the_rights_that_the_values_give(helm: Path, values: frozenset[str]) -> None:
    chosen = [pair[name not in values] for name, pair in VALUES.items()]
    rendered = (await made(helm, " ".join((EVERY_PART, *chosen)))).values()
    found = [each for each in rendered if "helm test" in values or not of_test(each)]
    for program in rights.PROGRAMS:
        assert given(found, program) == documented(program, values)
