"""Where programs are measured: beside a double of the API server, or at a real control plane."""

import asyncio
import ssl
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from http import HTTPMethod, HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tools.bench.tables import Measurement
from tools.clusters import builds, programs, shipped
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.controlplane.schedulers import VERBS, extender_at
from tools.clusters.programs import Running, Site

Json = dict[str, Any]

ADMIN, SCORER = "admin", f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"
# Access rights are not measured, but each program has a name: the audit log shows who made a request.
USERS = {
    **schedulers.USERS,
    **dict.fromkeys((ADMIN, SCORER, *shipped.ACCOUNTS.values()), "system:masters"),
}
AT_ONCE = 16
"""Concurrent requests of a session."""
PATIENCE_SECONDS = 300


def at_site(
    measure: Callable[[Namespace, Site], Coroutine[None, None, list[Measurement]]],
) -> Callable[[Namespace], list[Measurement]]:
    """Return a function that measures at a site of its own, whose programs end with it."""

    async def measured(chosen: Namespace) -> list[Measurement]:
        with tempfile.TemporaryDirectory(prefix="numalign-bench-") as folder:
            async with programs.site(Path(folder) / "site") as here:
                return await measure(chosen, here)

    return lambda chosen: asyncio.run(measured(chosen))


async def control_plane(here: Site, flags: Sequence[str]) -> Plane:
    """Start etcd and an API server. Raise `UnavailableError` if they cannot be built on this machine."""
    plane = Plane(
        here.children, Place(await builds.control_plane(), here.folder, here.pair), users=USERS, flags=flags
    )
    await plane.start()
    return plane


def account(plane: Plane, user: str) -> tuple[str, ...]:
    """Return the flags with which a program of numalign runs as a user."""
    folder = plane.folder / user.replace(":", "-")
    folder.mkdir(exist_ok=True)
    return "--namespace", shipped.NAMESPACE, "--kubeconfig", str(plane.kubeconfig(user, folder))


async def extending(here: Site, plane: Plane, reserve_at: str, *flags: str) -> tuple[Running, Json]:
    """Start the scorer with its Lease, so that it is ready and may bind; return also how it is called."""
    scorer = await here.scorer(*account(plane, SCORER), "--reserve-at", reserve_at, *flags)
    verbs = [verb for verb in VERBS if verb != "bind" or reserve_at == "bind"]
    return scorer, extender_at(f"http://127.0.0.1:{scorer.door.port}", verbs=verbs)


# A plain session takes less processor time than a client for Kubernetes, and so disturbs less.
def session(plane: Plane) -> aiohttp.ClientSession:
    """Return a session of an administrator, in which every error is raised."""
    trust = ssl.create_default_context(cafile=plane.ca)
    return aiohttp.ClientSession(
        plane.url,
        connector=aiohttp.TCPConnector(ssl=trust, limit=AT_ONCE),
        headers={"Authorization": f"Bearer {ADMIN}"},
        timeout=aiohttp.ClientTimeout(sock_read=PATIENCE_SECONDS),
        raise_for_status=_check,
    )


async def _check(answer: aiohttp.ClientResponse) -> None:
    gone = answer.method == HTTPMethod.DELETE and answer.status == HTTPStatus.NOT_FOUND
    if not (answer.ok or gone):
        raise RuntimeError(f"{answer.method} {answer.url}: {answer.status} {await answer.text()}")


async def call(api: aiohttp.ClientSession, method: str, path: str, body: object = None, **query: str) -> Json:
    """Return the answer to a call."""
    kind = "application/merge-patch+json" if method == HTTPMethod.PATCH else "application/json"
    sent = None if body is None else orjson.dumps(body)
    async with api.request(method, path, data=sent, params=query, headers={"Content-Type": kind}) as answer:
        found: Json = orjson.loads(await answer.read())
        return found


async def events(api: aiohttp.ClientSession, path: str) -> AsyncIterator[Json]:
    """Yield an event for each object that exists, and for each change from now on."""
    while True:
        # An API server ends the watch of a client that is slow for a moment.
        async with api.get(path, params={"watch": "true"}) as answer:
            async for line in answer.content:
                yield orjson.loads(line)
