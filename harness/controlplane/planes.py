"""A control plane of a test run: etcd, and an API server that can be killed and come back.

What an API server is to its clients survives the process: its address, its certificate, and what it stored.
So all of these belong to the plane, and the process can go.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration

from certs import authority
from harness.processes import Child, Children, answers, free_port, until

BINARIES = pytest.StashKey[Path]()
"""The folder with etcd, kube-apiserver and kube-scheduler."""

Users = Mapping[str, str]
"""Who comes to an API server: a token, which is also the user's name, and the groups."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plane lives: its programs, a folder of its own, and the certificate it shows."""

    binaries: Path
    folder: Path
    pair: authority.Files


class Plane:
    """
    An API server, and how to come to it. `starts` are the times from its start until it was ready.

    It does `without` some admission plugins: that for service accounts, unless controllers make them.
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
        self.binaries = place.binaries
        self.folder = place.folder
        self.ca = place.pair.ca
        self.port = free_port()
        self.starts: list[tuple[datetime, datetime]] = []
        self.url = f"https://127.0.0.1:{self.port}"
        store = f"http://127.0.0.1:{free_port()}"
        self._start_store = partial(
            children.start,
            str(place.binaries / "etcd"),
            f"--data-dir={place.folder / 'etcd'}",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            "--listen-peer-urls=http://127.0.0.1:0",
        )
        self._start_server = partial(
            children.start,
            str(place.binaries / "kube-apiserver"),
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={place.pair.cert}",
            f"--tls-private-key-file={place.pair.key}",
            f"--token-auth-file={_tokens(users, place.folder)}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://127.0.0.1",
            f"--service-account-key-file={place.pair.cert}",
            f"--service-account-signing-key-file={place.pair.key}",
            f"--disable-admission-plugins={','.join(without)}",
            *flags,
        )

    async def start(self) -> None:
        """The store, and the API server when it is ready."""
        self._store: Child = await self._start_store()
        await self.serve()

    async def serve(self) -> None:
        """Start the API server, for the first time or again; returns when it is ready."""
        began = datetime.now(UTC)
        self.child: Child = await self._start_server()
        ready = partial(answers, f"{self.url}/readyz", ca=self.ca)
        await until(ready, what="the API server was ready", child=self.child)
        self.starts.append((began, datetime.now(UTC)))

    def starting(self, at: datetime) -> bool:
        """Whether it was not ready then: until an API server knows its roles, it forbids everything."""
        return any(began <= at <= ready for began, ready in self.starts)

    async def kill(self) -> None:
        """The API server goes at once, as a machine does that loses its power; the store stays."""
        await self.child.end()

    async def end(self) -> None:
        """Both go, and do not take time from what comes next."""
        await self.kill()
        await self._store.end()

    def client(self, user: str) -> ApiClient:
        """Speaks as one of the users. The caller closes it."""
        configuration = Configuration(host=self.url, ssl_ca_cert=str(self.ca))
        return ApiClient(configuration, "Authorization", f"Bearer {user}")

    def kubeconfig(self, user: str, folder: Path, *, port: int | None = None) -> Path:
        """A file by which programs come as one of the users, directly or through a `port` that leads here."""
        file = folder / "kubeconfig"
        file.write_text(json.dumps(self._described(user, f"https://127.0.0.1:{port or self.port}")))
        return file

    def _described(self, user: str, server: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "e2e", "cluster": {"server": server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": "e2e", "user": {"token": user}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }


def _tokens(users: Users, folder: Path) -> Path:
    file = folder / "tokens.csv"
    file.write_text("".join(f'{user},{user},{user},"{groups}"\n' for user, groups in users.items()))
    return file
