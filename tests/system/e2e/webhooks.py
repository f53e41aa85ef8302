"""The webhook as a process, and the shipped configurations by which an API server calls it."""

from base64 import b64encode
from functools import partial
from pathlib import Path

from certs import authority
from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.processes import Child, Children, answers, free_port, program, until


class Webhook:
    """The program; it can be ended, and started again at the same address."""

    def __init__(self, children: Children, pair: authority.Files, *flags: str, name: str = "") -> None:
        self.port, metrics_port = free_port(), free_port()
        self.metrics_url = f"http://127.0.0.1:{metrics_port}"
        self._start = partial(
            children.start,
            program("numalign-webhook"),
            *("--bind=127.0.0.1", f"--port={self.port}", f"--metrics-port={metrics_port}"),
            *(f"--tls-cert={pair.cert}", f"--tls-key={pair.key}", *flags),
            name=name,
        )

    async def start(self) -> None:
        self.child: Child = await self._start()
        ready = partial(answers, f"{self.metrics_url}/readyz")
        await until(ready, what="the webhook was ready", child=self.child)

    def configurations(self, ca: Path) -> list[Json]:
        """The shipped configurations, which call it by address: no Service leads here."""
        found = [shipped.by_address(document, self.port) for document in shipped.webhooks()]
        for entry in (entry for document in found for entry in document["webhooks"]):
            entry["clientConfig"]["caBundle"] = base64(ca)
        return found


def base64(file: Path) -> str:
    return b64encode(file.read_bytes()).decode()
