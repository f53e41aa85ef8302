"""Workloads on real kubelets, with all that surrounds them; skipped, loudly, where that cannot be had."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.system.workloads.installed import HELM, Numalign, numalign, programs
from tests.system.workloads.stages import NODES, Stage, node, stage
from tests.worlds.child_output import CHILDREN
from tests.worlds.opt_in import WORKLOADS
from tools.clusters.ecosystem import JOBSET


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks back on what the other tests did")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    async def build() -> None:
        config.stash[HELM] = await programs(JOBSET)

    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    WORKLOADS.claim(config, items, Path(__file__).parent, build)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    async with stage(tmp_path_factory.mktemp("stage"), [node(name) for name in NODES]) as running:
        pytestconfig.stash[CHILDREN] = running.cluster.children
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ours(cluster: Stage, pytestconfig: pytest.Config) -> AsyncIterator[Numalign]:
    """Two replicas each of webhook and controller, with gates and healing, and the rights that takes."""
    async with numalign(cluster, pytestconfig.stash[HELM]) as running:
        yield running
