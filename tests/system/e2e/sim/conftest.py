"""An API server of their own for simulated nodes: it is killed here."""

from collections.abc import AsyncIterator

import pytest_asyncio

from numalign.kube.client import Api
from tests.system.e2e.own_planes import OwnPlane, need_managers
from tools.clusters.controlplane.planes import Plane


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane(own_plane: OwnPlane) -> AsyncIterator[Plane]:
    await need_managers()
    async with own_plane("sim", users={"admin": "system:masters"}) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def server(plane: Plane) -> AsyncIterator[Api]:
    async with plane.client("admin") as client:
        yield Api(client, namespace="default")
