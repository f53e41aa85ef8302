"""A control plane of a test run: etcd, and an API server that can be killed and started again.

What clients know of an API server survives its process: the address, the certificate, and the stored
objects. So all of these belong to the plane.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration

from certs import authority
from tools.clusters.processes import Child, Children, answers, free_port, until

BINARIES = pytest.StashKey[Path]()
"""The folder with etcd, kube-apiserver and kube-scheduler."""

Users = Mapping[str, str]
"""The groups of an API server's users by user name, which is also the token."""


@dataclass(frozen=True, slots=True)
class Place:
    """The files of a plane: its programs, a folder of its own, and its certificate."""

    binaries: Path
    folder: Path
    pair: authority.Files


class Plane:
    """
    An API server, and its address and clients. `starts` has the time of each start, and when it was ready.

    `without` are disabled admission plugins: by default that of service accounts, which needs the controllers
    that create them.
    """

    def __init__(
        self,
        children: Children,
        place: Place,
        *,
        users: Users,
        flags: Sequence[str] = (),
        without: Sequence[str] = ("ServiceAccount",),
    ) -> None:
        self.binaries, self.folder, self.ca = place.binaries, place.folder, place.pair.ca
        self.port = free_port()
        self.starts: list[tuple[datetime, datetime]] = []
        self.url = f"https://127.0.0.1:{self.port}"
        tokens = place.folder / "tokens.csv"
        tokens.write_text("".join(f'{user},{user},{user},"{groups}"\n' for user, groups in users.items()))
        store = f"http://127.0.0.1:{free_port()}"
        self._start_store = partial(
            children.start,
            *(str(place.binaries / "etcd"), f"--data-dir={place.folder / 'etcd'}"),
            *(f"--listen-client-urls={store}", f"--advertise-client-urls={store}"),
            "--listen-peer-urls=http://127.0.0.1:0",
        )
        self._start_server = partial(
            children.start,
            *(str(place.binaries / "kube-apiserver"), f"--etcd-servers={store}"),
            *("--bind-address=127.0.0.1", f"--secure-port={self.port}", f"--token-auth-file={tokens}"),
            *(f"--tls-cert-file={place.pair.cert}", f"--tls-private-key-file={place.pair.key}"),
            *("--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24"),
            *("--service-account-issuer=https://127.0.0.1", f"--service-account-key-file={place.pair.cert}"),
            f"--service-account-signing-key-file={place.pair.key}",
            *(f"--disable-admission-plugins={','.join(without)}", *flags),
        )

    async def start(self) -> None:
        self._store: Child = await self._start_store()
        await self.serve()

    async def serve(self) -> None:
        """Start the API server, for the first time or again, and return when it is ready."""
        began = datetime.now(UTC)
        self.child: Child = await self._start_server()
        ready = partial(answers, f"{self.url}/readyz", ca=self.ca)
        await until(ready, what="the API server was ready", child=self.child)
        self.starts.append((began, datetime.now(UTC)))

    def starting(self, at: datetime) -> bool:
        """Return whether it was starting at a time; until it knows its roles, it forbids everything."""
        return any(began <= at <= ready for began, ready in self.starts)

    async def kill(self) -> None:
        """Kill the API server at once, like a power failure; etcd keeps running."""
        await self.child.end()

    async def end(self) -> None:
        await self.kill()
        await self._store.end()

    def client(self, user: str) -> ApiClient:
        """Return a client for one of the users. The caller closes it."""
        configuration = Configuration(host=self.url, ssl_ca_cert=str(self.ca))
        return ApiClient(configuration, "Authorization", f"Bearer {user}")

    def kubeconfig(self, user: str, folder: Path, *, port: int | None = None) -> Path:
        """Write a kubeconfig for one of the users, with this address or a `port` that leads here."""
        server = f"https://127.0.0.1:{port or self.port}"
        cluster = {"server": server, "certificate-authority": str(self.ca)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": {"token": user}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(content))
        return file
