"""A control plane of its own with real kubelets at it, as a test or a bench has it in its hands."""

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

from certs import authority
from harness.certificates import key_pem
from harness.controlplane import build as controlplane
from harness.controlplane.planes import Place, Plane, Users
from harness.kubelets.build import USUAL, find
from harness.kubelets.kubelets import RealKubelet, RealNode, running, users
from harness.processes import Children

ADMIN: Users = {"admin": "system:masters"}
DAYS = 7
LONGEST_NAME = 32
PREFIX = "kubelets-"
# Kubelets wait until each of their checkpoints is on disk, and so does etcd. In memory they need not wait.
_MEMORY = Path("/dev/shm")  # noqa: S108  only the parent of a folder with a name of its own
_PARENT = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())


@dataclass(frozen=True, slots=True)
class RealCluster:
    """An API server, and by name of its node each kubelet. `children` is what else is started beside them."""

    plane: Plane
    kubelets: Mapping[str, RealKubelet]
    children: Children
    folder: Path

    def memory(self) -> int:
        """Bytes that all kubelets hold, with their companions."""
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
    """A cluster of these nodes, each of them ready, all of one version; all of it ends when this is left.

    `others` come to the API server besides the nodes, an `admin` among them; `flags` are the API server's.
    All programs write to the folder `logs`, if there is one.
    Raises `UnavailableError` with what is missing here, `BrokenError`, and `KubeletError`.
    """
    programs = await find(version)
    [binaries] = await controlplane.find(version)
    # Sockets have short paths, and so does this.
    remove_leftovers(_PARENT)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=_PARENT) as made:
        folder = Path(made)
        for name in ("logs", "tls"):
            (folder / name).mkdir()
        children = Children(logs=logs or folder / "logs")
        try:
            plane = _plane(children, binaries, folder, users={**others, **users(nodes)}, flags=flags)
            await plane.start()
            folders = (folder / f"{at}-{node.name}"[:LONGEST_NAME] for at, node in enumerate(nodes))
            kubelets = [
                RealKubelet(_trusting(node, folder / "tls"), programs, plane, children, at)
                for node, at in zip(nodes, folders, strict=True)
            ]
            async with running(kubelets) as by_name:
                yield RealCluster(plane, by_name, children, folder)
        finally:
            await children.end()


def remove_leftovers(parent: Path) -> None:
    """Remove the folders of runs that were killed: their programs ended with them, their files did not."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _plane(children: Children, binaries: Path, folder: Path, *, users: Users, flags: Sequence[str]) -> Plane:
    issued = authority.issue(names=["127.0.0.1"], days=DAYS, now=datetime.now(UTC))
    place = Place(binaries, folder, authority.write(issued, folder / "tls"))
    return Plane(children, place, users=users, flags=(*towards_kubelets(folder / "tls"), *flags))


def _trusting(node: RealNode, tls: Path) -> RealNode:
    return replace(node, configuration={**trust(tls), **node.configuration})


def trust(folder: Path) -> Mapping[str, object]:
    """The configuration of a kubelet that lets this API server in, and others by token."""
    return {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "1s"},
            "x509": {"clientCAFile": str(folder / "to-kubelets.crt")},
        }
    }


def towards_kubelets(folder: Path) -> tuple[str, ...]:
    """The flags of an API server that shows kubelets who it is: to them it is an administrator."""
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
