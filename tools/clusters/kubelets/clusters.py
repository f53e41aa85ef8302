"""A control plane of its own with real kubelets, for tests and benchmarks."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tools.clusters.certificates import key_pem
from tools.clusters.controlplane import build as controlplane
from tools.clusters.controlplane.planes import Place, Plane, Users
from tools.clusters.kubelets.build import USUAL, find
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
    version: str = USUAL,
    others: Users = ADMIN,
    flags: Sequence[str] = (),
    logs: Path | None = None,
) -> AsyncIterator[RealCluster]:
    """Run a cluster of these nodes during the block, all of one version; the block starts when all are ready.

    `others` are users besides the nodes, with an `admin` among them; `flags` are those of the API server. All
    programs log to the folder `logs`, if given.
    Raise `UnavailableError` with what is missing on this machine, `BrokenError` if a build fails, and
    `KubeletError` if a kubelet is not ready in time.
    """
    programs = await find(version)
    [binaries] = await controlplane.find(version)
    # The paths of sockets must be short, so this path is short.
    remove_leftovers(_PARENT)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=_PARENT) as made:
        folder = Path(made)
        for name in ("logs", "tls"):
            (folder / name).mkdir()
        children = Children(logs=logs or folder / "logs")
        try:
            place, tls = Place.new(binaries, folder), folder / "tls"
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
    key = ec.generate_private_key(ec.SECP256R1())
    own = (
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
        x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver"),
    )
    name, now = x509.Name(own), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "to-kubelets.crt", folder / "to-kubelets.key"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key_pem(key))
    return (
        f"--kubelet-client-certificate={certificate}",
        f"--kubelet-client-key={secret}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
    )
