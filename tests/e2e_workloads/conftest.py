"""Workloads on real kubelets, with all that surrounds them; skipped, loudly, where that cannot be had."""

from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from harness.controlplane import build as controlplane
from harness.helm import build as helm
from harness.jobsets import build as jobsets
from harness.kubelets import build as kubelets
from tests.asked_for import WORKLOADS
from tests.child_output import CHILDREN, with_output
from tests.e2e_workloads.installed import Numalign, numalign
from tests.e2e_workloads.stages import NODES, VERSION, Stage, node, stage

HELM = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks back on what the other tests did")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    async def build() -> None:
        config.stash[HELM] = await programs()

    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    WORKLOADS.claim(config, items, Path(__file__).parent, build)


async def programs() -> Path:
    """Have everything built before the time of any test runs; the path of helm."""
    await kubelets.find(VERSION)
    await controlplane.find(VERSION)
    await jobsets.find()
    [program] = await helm.find()
    return program


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return with_output(report, item.config)


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Has a line written at the end of the run."""
    return partial(WORKLOADS.remark, pytestconfig)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """The cluster without anything of ours but the agents."""
    async with stage(tmp_path_factory.mktemp("stage"), [node(name) for name in NODES]) as running:
        pytestconfig.stash[CHILDREN] = running.cluster.children
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ours(cluster: Stage, pytestconfig: pytest.Config) -> AsyncIterator[Numalign]:
    """Two replicas each of webhook and controller, with gates and healing, and the rights that takes."""
    async with numalign(cluster, pytestconfig.stash[HELM]) as running:
        yield running
