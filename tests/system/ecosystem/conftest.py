"""Programs of other projects beside numalign, on one cluster; skipped, loudly, where that cannot be had."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.e2e import placing
from tests.system.e2e.programs import kubeconfig
from tests.system.ecosystem.nodes import DENIES, NODES, USERS, Denying, node
from tests.system.ecosystem.pools import INSTANCES, Pools
from tests.system.ecosystem.queues import Queues
from tests.system.workloads.installed import HELM, Numalign, command, numalign, programs
from tests.system.workloads.stages import Stage, stage
from tests.worlds.child_output import CHILDREN
from tests.worlds.opt_in import ECOSYSTEM
from tools.clusters import ecosystem, shipped
from tools.clusters.api_requests import Json
from tools.clusters.installing import deschedule, karpenter, kuberay, kueue, trainer
from tools.clusters.processes import free_port
from tools.clusters.replicas import replicas
from tools.generate.manifests import made

PATIENCE_SECONDS = 5
"""For which a pod waits behind numalign's gate: less than by default, because tests wait for what follows."""

VALUES = (
    f"gates.enabled=true gates.patienceSeconds={PATIENCE_SECONDS} heal.enabled=true"
    " scorer.enabled=true scheduler.enabled=true"
)
"""Of numalign's chart."""

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    async def build() -> None:
        config.stash[HELM] = await programs(*ecosystem.ALL)

    # numalign remembers the nodes of a NodePool, and denies no pod that it might launch a larger one for.
    items.sort(key=lambda item: "pools" in getattr(item, "fixturenames", ()))
    ECOSYSTEM.claim(config, items, Path(__file__).parent, build)


@session_fixture()
async def cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """Nodes with agents, the scheduler, the controllers, and nothing else of ours."""
    async with stage(tmp_path_factory.mktemp("stage"), [node(name) for name in NODES], USERS) as running:
        pytestconfig.stash[CHILDREN] = running.cluster.children
        yield running


@session_fixture()
async def ours(cluster: Stage, pytestconfig: pytest.Config) -> AsyncIterator[Numalign]:
    """Webhook and controller as the chart installs them, with gates."""
    async with numalign(cluster, pytestconfig.stash[HELM], VALUES) as running:
        yield running


@session_fixture()
async def denies(ours: Numalign, pytestconfig: pytest.Config) -> AsyncIterator[Denying]:
    """One webhook process more, with `workloads: deny` by the chart, for namespaces with a label."""
    stage, kind = ours.stage, "ValidatingWebhookConfiguration"
    installation = await made(pytestconfig.stash[HELM], f"{VALUES} workloads=deny")
    denying = command(installation, shipped.NAME, stage.cluster.plane)
    installed = await stage.read(ours.installation[kind, shipped.CONFIGURATION])
    [entry] = [each for each in installed["webhooks"] if each["name"] == "workloads.validate.numalign.io"]
    async with replicas(stage.cluster.children, command=denying, name="denying") as webhooks:
        await webhooks.start()
        ports = (str(each.service.port) for each in (ours.webhooks, webhooks))
        entry["clientConfig"]["url"] = entry["clientConfig"]["url"].replace(*ports)
        await stage.store.apply(
            {
                "apiVersion": installed["apiVersion"],
                "kind": kind,
                "metadata": {"name": f"{shipped.CONFIGURATION}-denying"},
                "webhooks": [{**entry, "namespaceSelector": {"matchLabels": DENIES}}],
            }
        )
        yield Denying(stage)


@session_fixture()
async def scored(ours: Numalign, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    stage, port, folder = ours.stage, free_port(), tmp_path_factory.mktemp("second")
    plane, children = stage.cluster.plane, stage.cluster.children
    cluster = placing.Cluster(plane, stage.store)
    async with (
        placing.scoring(children, kubeconfig(plane, placing.SCORER), port),
        placing.second_scheduler(children, cluster, folder, port=port),
    ):
        yield


@session_fixture()
async def training(ours: Numalign) -> AsyncIterator[None]:
    async with trainer(ours.stage.cluster.children, ours.stage.cluster.plane):
        yield


@session_fixture()
async def queues(
    ours: Numalign,
    training: None,  # noqa: ARG001  Kueue denies TrainJobs if it starts before their kinds are there
    pytestconfig: pytest.Config,
) -> AsyncIterator[Queues]:
    stage = ours.stage
    async with kueue(stage.cluster.children, stage.cluster.plane, pytestconfig.stash[HELM]) as running:
        yield Queues(ours, running)


@session_fixture()
async def ray(ours: Numalign) -> AsyncIterator[None]:
    async with kuberay(ours.stage.cluster.children, ours.stage.cluster.plane):
        yield


@session_fixture()
async def pools(ours: Numalign, pytestconfig: pytest.Config) -> AsyncIterator[Pools]:
    stage = ours.stage
    plane, children = stage.cluster.plane, stage.cluster.children
    async with karpenter(children, plane, pytestconfig.stash[HELM], INSTANCES):
        yield Pools(ours)


@pytest.fixture
def evict(ours: Numalign, pytestconfig: pytest.Config) -> Callable[[Json], Awaitable[list[str]]]:
    """Runs a profile of the descheduler once, and returns whom it evicted."""
    return partial(deschedule, ours.stage.cluster.plane, pytestconfig.stash[HELM])
