"""An API server of their own for simulated nodes: it is killed here."""

from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus

import pytest
import pytest_asyncio

from certs import authority
from numalign.kube.client import Api
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.oracle.build import find
from tools.clusters.processes import Children
from tools.clusters.waiting import SELDOM, seconds_until

session_fixture = partial(pytest_asyncio.fixture, scope="session", loop_scope="session")


@session_fixture()
async def plane(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> Plane:
    """Running, with the namespace that every API server makes."""
    try:
        await find()
    except UnavailableError as error:
        pytest.skip(f"NO SIMULATED NODES WERE TESTED: {error}")
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("sim"), pair)
    running = Plane(children, place, users={"admin": "system:masters"})
    await running.start()
    async with running.client("admin") as client:
        await seconds_until(
            partial(ask, client, "GET", "/api/v1/namespaces/default"),
            lambda answer: answer.code == HTTPStatus.OK,
            what="there was a namespace",
            within=30,
            every=SELDOM,
        )
    return running


@pytest_asyncio.fixture(loop_scope="session")
async def server(plane: Plane) -> AsyncIterator[Api]:
    """The API server, as the administrator."""
    async with plane.client("admin") as client:
        yield Api(client, namespace="default")
