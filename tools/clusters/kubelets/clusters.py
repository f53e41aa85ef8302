"""A control plane of its own with real kubelets, for tests and benchmarks."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tools.clusters import builds
from tools.clusters.certificates import certificate, key_pem, pair
from tools.clusters.controlplane.planes import Place, Plane, Users
from tools.clusters.kubelets.kubelets import RealKubelet, RealNode, running, users
from tools.clusters.processes import Children

ADMIN: Users = {"admin": "system:masters"}
DAYS = 7
LONGEST_NAME = 32
PREFIX = "kubelets-"
# Kubelets and etcd wait until their files are on disk. In memory, they need not wait.
_MEMORY = Path("/dev/shm")  # noqa: S108  only the parent of a folder with a name of its own
_PARENT = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())


@dataclass(frozen=True, slots=True)
class RealCluster:
    """A control plane, and its kubelets by node name. `children` can start more programs next to them."""

    plane: Plane
    kubelets: Mapping[str, RealKubelet]
    children: Children
    folder: Path

    def memory(self) -> int:
        return sum(kubelet.memory() for kubelet in self.kubelets.values())


@asynccontextmanager
async def started(
    nodes: Sequence[RealNode],
    *,
    version: str = builds.USUAL,
    others: Users = ADMIN,
    flags: Sequence[str] = (),
    logs: Path | None = None,
) -> AsyncIterator[RealCluster]:
    """Run a cluster of these nodes during the block, all of one version; the block starts when all are ready.

    `others` are users besides the nodes, with an `admin` among them; `flags` are those of the API server. All
    programs log to the folder `logs`, if given.
    Raise `UnavailableError` with what is missing on this machine, and `BrokenError` if a build fails.
    """
    programs = await builds.kubelet(version)
    binaries = await builds.control_plane(version)
    # The paths of sockets must be short, so this path is short.
    remove_leftovers(_PARENT)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=_PARENT) as made:
        folder = Path(made)
        (folder / "logs").mkdir()
        children = Children(logs=logs or folder / "logs")
        try:
            place, tls = Place(binaries, folder, pair(folder / "tls")), folder / "tls"
            flags = (*towards_kubelets(tls), *flags)
            plane = Plane(children, place, users={**others, **users(nodes)}, flags=flags)
            await plane.start()
            folders = (folder / f"{at}-{node.name}"[:LONGEST_NAME] for at, node in enumerate(nodes))
            kubelets = [
                RealKubelet(
                    replace(node, configuration={**trust(tls), **node.configuration}),
                    *(programs, plane, children, at),
                )
                for node, at in zip(nodes, folders, strict=True)
            ]
            async with running(kubelets) as by_name:
                yield RealCluster(plane, by_name, children, folder)
        finally:
            await children.end()


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of killed runs: their programs ended with them, but their files remain."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def trust(folder: Path) -> Mapping[str, object]:
    """Return the configuration of a kubelet that accepts this API server's certificate, and tokens."""
    return {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "1s"},
            "x509": {"clientCAFile": str(folder / "to-kubelets.crt")},
        }
    }


def towards_kubelets(folder: Path) -> tuple[str, ...]:
    """Create a client certificate, and return the flags that make an API server an admin of kubelets."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    names = {NameOID.ORGANIZATION_NAME: "system:masters", NameOID.COMMON_NAME: "kube-apiserver"}
    made = certificate(key, since=now - timedelta(hours=1), until=now + timedelta(days=DAYS), names=names)
    (folder / "to-kubelets.crt").write_bytes(made)
    (folder / "to-kubelets.key").write_bytes(key_pem(key))
    return (
        f"--kubelet-client-certificate={folder / 'to-kubelets.crt'}",
        f"--kubelet-client-key={folder / 'to-kubelets.key'}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
    )
