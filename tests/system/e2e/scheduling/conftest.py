"""A cluster for each module of this folder, and the schedulers and scorers that are shipped in it."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from certs import authority
from numalign.runtime.clock import utc_now
from tests.system.e2e.own_planes import OwnPlane
from tests.system.e2e.placing import (
    NODES,
    SCORER,
    SHAPE,
    Cluster,
    Running,
    cluster_of,
    own_scheduler,
    second_scheduler,
)
from tests.system.eventually import eventually
from tools.clusters import agents, fleets, shipped
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import BINARIES
from tools.clusters.processes import Children, run
from tools.generate.manifests import MANIFESTS, objects

VOLCANOS = Path(__file__).resolve().parents[1] / "numatopologies.yaml"
SERVICE = f"numalign-scorer.{shipped.NAMESPACE}.svc"

module_fixture = partial(pytest_asyncio.fixture, scope="module", loop_scope="session")


@module_fixture()
async def minor(pytestconfig: pytest.Config) -> int:
    _, output = await run(str(pytestconfig.stash[BINARIES] / "kube-apiserver"), "--version")
    return int(output.strip().removeprefix("Kubernetes v1.").partition(".")[0])


@module_fixture()
async def cluster(own_plane: OwnPlane) -> AsyncIterator[Cluster]:
    async with cluster_of(own_plane, "scheduling") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def tidy(cluster: Cluster) -> AsyncIterator[Cluster]:
    await cluster.clear()
    yield cluster
    await cluster.clear()


@module_fixture()
async def second(
    children: Children, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    async with second_scheduler(children, cluster, tmp_path_factory.mktemp("second")) as running:
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


@module_fixture()
async def published(cluster: Cluster) -> Cluster:
    """The nodes have topologies, and the scorer is installed."""
    await agents.define(cluster.store)
    for document in shipped.documents(VOLCANOS):
        await cluster.store.apply(document)
    # Served kinds are not listed at once.
    await eventually(
        partial(ask, cluster.api, "GET", agents.TOPOLOGIES.rpartition("/")[0]),
        lambda answer: bool(answer.body.get("resources")),
        "topologies were listed",
    )
    for name in NODES:
        await cluster.store.replace(fleets.topology(name, SHAPE))
    for document in objects(MANIFESTS / "scorer"):
        await cluster.store.apply(document)
    return cluster


@module_fixture()
async def kubeconfig(published: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published.plane.kubeconfig(SCORER, tmp_path_factory.mktemp("scorer"))
