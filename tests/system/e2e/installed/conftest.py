"""numalign as a cluster has it: installed with what is shipped, following its API server, two replicas each.

The API server is one of its own, for it is killed here. Webhook and controller come to it as their service
accounts, with exactly the roles that are shipped, and what each asked for can be read in the audit log
afterwards. They come through a wire that can be cut.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.e2e.clusters import (
    IMPATIENT,
    ROTATING,
    Cluster,
    Rehearsal,
    Rotation,
    admitted,
    command,
    controller,
)
from tests.system.e2e.loads import LOADED, load
from tests.system.e2e.own_planes import OwnPlane
from tests.worlds.programs import path_of
from tools.clusters import agents, fleets, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.reviews import reviews
from tools.clusters.processes import Children, program, run, until
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas
from tools.clusters.wires import Wire, wire

HERE = Path(__file__).resolve().parent
REHEARSER = "rehearser"
USERS = {
    "admin": "system:masters",
    REHEARSER: "system:masters",
    **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS),
}
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "team": {},
    "enforced": {"numalign.io/enforce": "single-numa-node"},
}

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")


# ---- a cluster that does not know of us


@session_fixture()
async def plane(own_plane: OwnPlane) -> AsyncIterator[Plane]:
    """An API server of its own that logs the requests of our users."""
    async with own_plane("installed", users=USERS, audited=(REHEARSER, *shipped.ACCOUNTS.values())) as plane:
        yield plane


@session_fixture()
async def admin(plane: Plane) -> AsyncIterator[ApiClient]:
    async with plane.client("admin") as client:
        yield client


@session_fixture()
async def fleet(admin: ApiClient) -> Store:
    """The nodes, what is published of them, and namespaces."""
    store = Store(admin)
    await agents.define(store)
    for document in shipped.documents(HERE.parent / "numatopologies.yaml"):
        await store.apply(document)
    for name, labels in NAMESPACES.items():
        await store.apply(namespace(name, labels))
    for document in (*fleets.nodes(), *fleets.topologies()):
        await store.replace(document)
    return store


@session_fixture()
async def rehearsal(fleet: Store, plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    kubeconfig = plane.kubeconfig(REHEARSER, tmp_path_factory.mktemp("rehearser"))
    before = await fleet.list("v1", "Node")
    code, output = await run(*controller(kubeconfig, dry_run="true"))
    uses = audits.uses(plane.folder, user=REHEARSER)
    return Rehearsal(code, output, before=before, after=await fleet.list("v1", "Node"), uses=uses)


# ---- numalign in it


@session_fixture()
async def uplink(plane: Plane) -> AsyncIterator[Wire]:
    async with wire() as leading:
        leading.where = lambda: plane.port
        yield leading


@session_fixture()
async def everyone(
    children: Children, plane: Plane, uplink: Wire, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Replicas]:
    folder = tmp_path_factory.mktemp("account")
    kubeconfig = plane.kubeconfig(shipped.ACCOUNT, folder, port=uplink.port)
    async with replicas(children, command=command(kubeconfig, **IMPATIENT)) as service:
        yield service


@session_fixture()
async def controllers(
    children: Children, plane: Plane, uplink: Wire, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Replicas]:
    folder = tmp_path_factory.mktemp("controllers")
    kubeconfig = plane.kubeconfig(shipped.CONTROLLERS, folder, port=uplink.port)
    running = controller(kubeconfig)
    async with replicas(children, command=running, name="controller", ports=ONLY_METRICS) as everyone:
        yield everyone


@session_fixture()
async def installed(rehearsal: Rehearsal, fleet: Store, everyone: Replicas) -> Store:
    """A cluster with all that is shipped, before the program starts."""
    assert rehearsal.code == 0, rehearsal.output
    for document in shipped.objects():
        await fleet.apply(shipped.patient(shipped.by_address(document, everyone.service.port)))
    return fleet


@session_fixture()
async def cluster(
    plane: Plane, installed: Store, everyone: Replicas, controllers: Replicas, uplink: Wire
) -> Cluster:
    """Two replicas that are asked by the API server, two controllers, and the nodes labelled."""
    running = Cluster(plane, installed, everyone, controllers, uplink)
    for _ in range(2):
        await everyone.add()
        await controllers.start()
    for each in everyone.running:
        await until(each.is_ready, what=f"{each.name} was ready", child=each.child)
    published = [topology["metadata"]["name"] for topology in fleets.topologies()]
    await running.until_labelled(*published)
    return running


@session_fixture()
async def rotation(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Rotation:
    kubeconfig = cluster.plane.kubeconfig("admin", tmp_path_factory.mktemp("rotation"))
    rotate = (program("numalign-certs"), "rotate", *ROTATING, "--kubeconfig", str(kubeconfig))
    before, reviewed = await cluster.shown(), await reviews(cluster.api)
    async with load(cluster.api, LOADED, right=admitted, namespace="enforced") as count:
        await asyncio.sleep(1)
        code, output = await run(*rotate)
        await asyncio.sleep(1)
    asked = (await reviews(cluster.api)).since(reviewed)
    return Rotation(
        code=code, output=output, load=count, reviews=asked, before=before, after=await cluster.shown()
    )


@pytest.fixture
def shell(plane: Plane, tmp_path: Path) -> Callable[[str], Awaitable[tuple[int, str]]]:
    """Runs what a person would type, at the root of the repository, as the administrator."""
    path_of("kubectl")
    kubeconfig = str(plane.kubeconfig("admin", tmp_path))

    async def typed(script: str) -> tuple[int, str]:
        return await run("sh", "-euc", f"cd {shipped.ROOT}\n{script}", KUBECONFIG=kubeconfig)

    return typed
