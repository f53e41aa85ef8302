"""A control plane of their own for pods that the scorer places: API server and scorers are killed here."""

import sys
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.system.e2e.placing import ACCOUNTS, SCORER
from tests.system.e2e.programs import OwnPlane, need_managers, stocked
from tests.system.e2e.sites import Site
from tools.clusters import shipped
from tools.clusters.controlplane.schedulers import USERS as SCHEDULERS
from tools.clusters.controlplane.schedulers import extender_at, scheduler
from tools.clusters.processes import Children
from tools.clusters.replicas import replicas
from tools.generate.manifests import MANIFESTS, SCORER_GUARD, objects

USERS = {"admin": "system:masters", SCORER: ACCOUNTS, **SCHEDULERS}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[Site]:
    """A control plane without nodes, a scheduler, and one scorer."""
    await need_managers()
    async with (
        own_plane("scored", users=USERS, needs=["kube-scheduler"]) as plane,
        plane.client("admin") as client,
    ):
        store = await stocked(client, (*objects(MANIFESTS / "scorer"), *objects(MANIFESTS / SCORER_GUARD)))
        command = (
            *(sys.executable, "-m", "scorer", f"--namespace={shipped.NAMESPACE}", "--bind=127.0.0.1"),
            *(f"--kubeconfig={plane.kubeconfig(SCORER, plane.folder)}", "--insecure-http", "--debug-state"),
            # Tests do not wait as long as a cluster does.
            "--drain-seconds=1",
        )
        async with replicas(children, command=command, name="scorer", scheme="http") as scorers:
            await scorers.start()
            async with scheduler(children, plane, extender=extender_at(scorers.url)):
                yield Site(plane, store, scorers)
            await scorers.end()
