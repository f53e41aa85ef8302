"""One cluster for the tests of this folder, and the schedulers and scorers that are shipped in it."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from certs import authority
from numalign.runtime.clock import utc_now
from tests.system.e2e.placing import (
    NODES,
    SCHEDULER,
    SCORER,
    SHAPE,
    STANDBY,
    USERS,
    Cluster,
    Replica,
    Running,
    own_scheduler,
    scoring,
    second_scheduler,
)
from tests.system.e2e.programs import OwnPlane, kubeconfig
from tests.system.eventually import eventually
from tools.clusters import agents, fleets, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import BINARIES
from tools.clusters.processes import Children, run
from tools.generate.manifests import MANIFESTS, objects

VOLCANOS = Path(__file__).resolve().parents[1] / "numatopologies.yaml"
SERVICE = f"numalign-scorer.{shipped.NAMESPACE}.svc"
GROUPS = {
    36: ("scheduling.k8s.io/v1alpha2", "GenericWorkload=true,GangScheduling=true"),
    37: ("scheduling.k8s.io/v1beta1", "GenericWorkload=true"),
}
"""By minor version of Kubernetes, as what pod groups are served, and the feature gates that this takes."""

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")
session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")


@session_fixture()
async def minor(pytestconfig: pytest.Config) -> int:
    _, output = await run(str(pytestconfig.stash[BINARIES] / "kube-apiserver"), "--version")
    return int(output.strip().removeprefix("Kubernetes v1.").partition(".")[0])


@session_fixture()
async def cluster(own_plane: OwnPlane, minor: int) -> AsyncIterator[Cluster]:
    """Two nodes with topologies, the scorer's roles, pod groups; the requests of our accounts are logged."""
    audited, served = (SCHEDULER, SCORER, STANDBY), GROUPS.get(minor)
    flags = (f"--runtime-config={served[0]}=true", f"--feature-gates={served[1]}") if served else ()
    async with (
        own_plane("scheduling", users=USERS, needs=["kube-scheduler"], audited=audited, flags=flags) as plane,
        plane.client("admin") as api,
    ):
        store = Store(api)
        await agents.define(store)
        for document in shipped.documents(VOLCANOS):
            await store.apply(document)
        # Served kinds are not listed at once.
        await eventually(
            partial(ask, api, "GET", agents.TOPOLOGIES.rpartition("/")[0]),
            lambda answer: bool(answer.body.get("resources")),
            "topologies were listed",
        )
        for document in (
            *shipped.documents(shipped.MANIFESTS / "namespace.yaml"),
            *objects(MANIFESTS / "scorer"),
        ):
            await store.apply(document)
        for node in NODES:
            await store.replace(fleets.node(node, SHAPE))
            await store.replace(fleets.topology(node, SHAPE))
        yield Cluster(plane, store)


@pytest_asyncio.fixture(loop_scope="session")
async def tidy(cluster: Cluster) -> AsyncIterator[Cluster]:
    await cluster.clear()
    yield cluster
    await cluster.clear()


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    """What else a module gives its second scheduler."""
    return ()


@pytest.fixture(scope="module")
def binary() -> Path | None:
    """What a module runs as its second scheduler, if not the plane's."""
    return None


@module_fixture()
async def second(
    children: Children,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    flags: tuple[str, ...],
    binary: Path | None,
) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("second")
    async with second_scheduler(children, cluster, folder, *flags, binary=binary) as running:
        yield running


@module_fixture()
async def scorer(children: Children, cluster: Cluster, second: Running) -> AsyncIterator[Replica]:
    async with scoring(children, kubeconfig(cluster.plane, SCORER), second.port) as running:
        yield running


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> authority.Files:
    """A certificate as `numalign-certs issue` makes one for the scorer."""
    issued = authority.issue(names=[SERVICE], days=1, now=utc_now())
    return authority.write(issued, tmp_path_factory.mktemp("trusted"))


@module_fixture()
async def own(
    request: pytest.FixtureRequest,
    children: Children,
    cluster: Cluster,
    trusted: authority.Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Running]:
    """The control plane's own scheduler, with the configuration whose name is the parameter."""
    folder, name = tmp_path_factory.mktemp("own"), request.param
    async with own_scheduler(children, cluster, folder, configuration=name, ca=trusted.ca) as running:
        yield running
