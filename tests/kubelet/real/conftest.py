"""Runs real kubelets with agents beside them. Where they cannot be had, every test is skipped, loudly."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.worlds.opt_in import KUBELETS
from tools.clusters import builds

VERSIONS = (*builds.versions(builds.KUBELETS),)
BETWEEN = "v1.36.3"
"""Tested by `make e2e-kubelets E2E_KUBELETS="-k v1.36"`, not with every change."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    KUBELETS.claim(config, items, Path(__file__).parent, build)


async def build() -> None:
    """Have kubelets and control planes built before the time of any test runs."""
    for version in (each for each in VERSIONS if each != BETWEEN):
        await builds.kubelet(version)
        await builds.control_plane(version)


@pytest.fixture(scope="session")
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Has a line printed at the end of the run."""
    return partial(KUBELETS.remark, pytestconfig)
