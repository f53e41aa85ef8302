"""A small cluster behind an API server that asks for a token, and kubeconfigs that lead to it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.worlds.objects import namespace, node, nrt, pod
from tools.clusters.fake_api import FakeApi

TOKEN = "let-me-in"  # noqa: S105  of a server that lives as long as a test

Kubeconfig = Callable[..., str]


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    """Two nodes, one topology, a namespace and a pod, for requests with the token."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with FakeApi(token=TOKEN) as server:
        for made in (node("a"), node("b"), nrt("a", zones=[]), namespace("default"), pod("p")):
            server.put(made)
        yield server


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Kubeconfig:
    """Writes a kubeconfig of the server, and returns its path."""

    def write(*, server: str = "", token: str = TOKEN, namespace: str | None = None) -> str:
        other = FakeApi(url=server or api.url, token=token)
        return str(other.kubeconfig(tmp_path / "kubeconfig", namespace=namespace))

    return write
