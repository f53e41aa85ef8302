"""The places at which programs of numalign are measured: without a cluster, or on a real control plane."""

import asyncio
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from certs import authority
from tools.bench.tables import Measurement
from tools.clusters import programs, shipped
from tools.clusters.api_objects import Store
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.processes import Children

SCORER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"


@dataclass(frozen=True, slots=True)
class Site:
    """An API server, the programs around it, a certificate for numalign, and a client of one of its users."""

    plane: Plane
    children: Children
    pair: authority.Files
    store: Store

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig with which a program authenticates as a user."""
        folder = self.plane.folder / user.replace(":", "-")
        folder.mkdir(exist_ok=True)
        return self.plane.kubeconfig(user, folder)


def certificate(folder: Path) -> authority.Files:
    """Return a certificate for this machine, written to a folder."""
    issued = authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC))
    return authority.write(issued, folder / "tls")


@asynccontextmanager
async def control_plane(
    folder: Path, *, users: Mapping[str, str], flags: Sequence[str], client: str
) -> AsyncIterator[Site]:
    """Run etcd and an API server in a folder, with these flags and users, one of which is the client.

    Raise `UnavailableError` if they cannot be built here.
    """
    pair, children = certificate(folder), Children(logs=folder)
    plane = Plane(children, Place(binaries(), folder, pair), users=users, flags=flags)
    try:
        await plane.start()
        async with plane.client(client) as api:
            yield Site(plane, children, pair, Store(api))
    finally:
        await children.end()


@cache
def binaries() -> Path:
    """Return the folder of the control plane's programs, built first if necessary."""
    search = [sys.executable, "-m", "tools.clusters.controlplane.build"]
    found = subprocess.run(search, stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603 - our own
    if found.returncode:
        raise UnavailableError("no control plane: it needs Go once, or KUBEBUILDER_ASSETS")
    return Path(found.stdout.strip())


def at_site(
    measure: Callable[[Namespace, programs.Site], Coroutine[None, None, list[Measurement]]],
) -> Callable[[Namespace], list[Measurement]]:
    """Return a function that measures at a site of its own, whose programs end with it."""

    async def measured(chosen: Namespace, folder: Path) -> list[Measurement]:
        async with programs.site(folder / "site") as here:
            return await measure(chosen, here)

    def run(chosen: Namespace) -> list[Measurement]:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(measured(chosen, Path(folder)))

    return run
