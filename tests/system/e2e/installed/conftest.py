"""numalign as a cluster has it: installed with what is shipped, following its API server, two replicas each.

The API server is one of its own, for it is killed here. Programs come to it through a wire that can be cut,
as their service accounts with the roles that are shipped; what they asked for is in the audit log.
"""

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.e2e.clusters import IMPATIENT, Cluster, command
from tests.system.e2e.programs import OwnPlane, kubeconfig
from tests.worlds.programs import path_of
from tools.clusters import agents, fleets, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children, run, until
from tools.clusters.replicas import ONLY_METRICS, replicas
from tools.clusters.wires import wire

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


@session_fixture()
async def plane(own_plane: OwnPlane) -> AsyncIterator[Plane]:
    """An API server of its own that logs the requests of our users."""
    async with own_plane("installed", users=USERS, audited=(REHEARSER, *shipped.ACCOUNTS.values())) as plane:
        yield plane


@session_fixture()
async def fleet(plane: Plane) -> AsyncIterator[Store]:
    """A cluster that does not know of us: nodes, what is published of them, and namespaces."""
    async with plane.client("admin") as admin:
        store = Store(admin)
        await agents.define(store)
        for document in shipped.documents(HERE.parent / "numatopologies.yaml"):
            await store.apply(document)
        for name, labels in NAMESPACES.items():
            await store.apply(namespace(name, labels))
        for document in (*fleets.nodes(), *fleets.topologies()):
            await store.replace(document)
        yield store


@session_fixture()
async def rehearsal(fleet: Store, plane: Plane) -> str:
    """What `--dry-run` prints; it reads, and changes nothing."""
    before = await fleet.list("v1", "Node")
    code, output = await run(*command(kubeconfig(plane, REHEARSER), shipped.CONTROLLER, dry_run="true"))
    assert code == 0, output
    uses = audits.uses(plane.folder, user=REHEARSER)
    assert uses
    assert [use for use in uses if use.writes] == []
    assert await fleet.list("v1", "Node") == before
    return output


@session_fixture()
async def cluster(
    plane: Plane,
    fleet: Store,
    rehearsal: str,
    children: Children,
) -> AsyncIterator[Cluster]:
    """All that is shipped, two replicas that the API server asks, two controllers, and the nodes labelled."""
    assert rehearsal
    async with wire() as uplink:
        uplink.where = lambda: plane.port
        webhook, controller = [
            kubeconfig(plane, account, port=uplink.port) for account in shipped.ACCOUNTS.values()
        ]
        leading = command(controller, shipped.CONTROLLER)
        async with (
            replicas(children, command=command(webhook, **IMPATIENT)) as everyone,
            replicas(children, command=leading, name="controller", ports=ONLY_METRICS) as controllers,
        ):
            for document in shipped.objects():
                patient = shipped.by_address(document, everyone.service.port, **shipped.PATIENT)
                await fleet.apply(patient)
            running = Cluster(plane, fleet, everyone, controllers, uplink)
            for _ in range(2):
                await everyone.add()
                await controllers.start()
            for each in everyone.running:
                await until(each.is_ready, what=f"{each.name} was ready", child=each.child)
            await running.until_labelled(*(each["metadata"]["name"] for each in fleets.topologies()))
            yield running


@pytest.fixture
def shell(plane: Plane) -> Callable[[str], Awaitable[tuple[int, str]]]:
    """Runs what a person would type, at the root of the repository, as the administrator."""
    path_of("kubectl")
    file = str(kubeconfig(plane, "admin"))
    there = f"cd {shlex.quote(str(shipped.ROOT))}\n"
    return lambda script: run("sh", "-euc", there + script, KUBECONFIG=file)
