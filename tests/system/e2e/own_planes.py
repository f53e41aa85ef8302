"""Control planes that tests have for themselves, and what the chart gives to controllers there."""

import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from tests.system.eventually import eventually
from tests.worlds.asked_for import PACKAGING
from tools.clusters import agents, shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.planes import BINARIES, Place, Plane, Users
from tools.clusters.gotools import UnavailableError
from tools.clusters.helm import build
from tools.clusters.oracle.build import find
from tools.clusters.processes import Children
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas
from tools.generate.manifests import made

OwnPlane = Callable[..., AbstractAsyncContextManager[Plane]]


def own_planes(
    config: pytest.Config, folders: pytest.TempPathFactory, children: Children, pair: authority.Files
) -> OwnPlane:
    @asynccontextmanager
    async def started(
        name: str,
        *,
        users: Users,
        needs: Iterable[str] = (),
        audited: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
    ) -> AsyncIterator[Plane]:
        """A plane during the block that logs the requests of `audited` users; skips without its programs."""
        place = Place(config.stash[BINARIES], folders.mktemp(name), pair)
        for each in needs:
            if not (place.binaries / each).is_file():
                pytest.skip(f"{place.binaries} has no {each}")
        logged = audits.flags(place.folder, users=audited) if audited else ()
        plane = Plane(children, place, users=users, flags=(*logged, *flags))
        await plane.start()
        async with plane.client("admin") as client:
            look = partial(ask, client, "GET", "/api/v1/namespaces/default")
            what = "there was a namespace for pods"
            await eventually(look, lambda seen: seen.code == 200, what)
        try:
            yield plane
        finally:
            await plane.end()

    return started


async def need_managers() -> None:
    try:
        await find()
    except UnavailableError as error:
        pytest.skip(f"NO SIMULATED NODES WERE TESTED: {error}")


async def stocked(api: ApiClient, documents: Iterable[Json] = ()) -> Store:
    """The objects of a new API server: the kind of topologies, numalign's namespace, and some documents."""
    store = Store(api)
    await agents.define(store)
    for document in (*shipped.documents(shipped.MANIFESTS / "namespace.yaml"), *documents):
        await store.apply(document)
    return store


async def charted_rights(values: str, *names: str) -> list[Json]:
    """The roles and policies of these names in the chart with these values; of the controller by default."""
    with PACKAGING.or_skipped():
        [helm] = await build.find()
    return [
        document
        for (kind, name), document in (await made(helm, values)).items()
        if name in (names or (shipped.CONTROLLER,))
        and ("Role" in kind or "Policy" in kind)
        and kind != "NetworkPolicy"
    ]


def controllers_of(children: Children, plane: Plane, *flags: str) -> AbstractAsyncContextManager[Replicas]:
    """Controllers with their service account, none of them started."""
    command = (
        *(sys.executable, "-m", "controller", f"--namespace={shipped.NAMESPACE}", "--bind=127.0.0.1"),
        *(f"--kubeconfig={plane.kubeconfig(shipped.CONTROLLERS, plane.folder)}", "--drain-seconds=1"),
    )
    return replicas(
        children, command=(*command, *flags), name="controller", scheme="http", ports=ONLY_METRICS
    )
