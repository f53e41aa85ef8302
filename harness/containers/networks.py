"""A network for pods: a bridge of this machine, at which each pod has an address that this machine reaches.

Nothing translates addresses. The one Service that pods call, that of the API server, has its address at the
bridge.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from harness.wires import wire

BRIDGE = "numalign0"
ADDRESS = "10.88.0.1"
PODS = "10.88.0.0/16"
API_SERVER = "10.0.0.1"
"""The address of the Service `kubernetes`, the first of the range of `harness.controlplane.planes`."""

HTTPS = 443


@asynccontextmanager
async def network(port: int) -> AsyncIterator[None]:
    """Has pods reach the API server at a `port` of 127.0.0.1 as https://10.0.0.1, while the block runs."""
    with suppress(subprocess.CalledProcessError):
        # Of a run that was killed.
        _ip("link", "delete", BRIDGE)
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{ADDRESS}/16", "dev", BRIDGE)
        _ip("addr", "add", f"{API_SERVER}/32", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        async with wire(API_SERVER, HTTPS) as service:
            service.where = lambda: port
            yield
    finally:
        _ip("link", "delete", BRIDGE)


def configure(folder: Path) -> Path:
    """The network as containerd reads it; returns the folder of its configuration."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(folder / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "ipam": addresses}
    configuration = folder / "cni"
    configuration.mkdir(parents=True)
    content = {"cniVersion": "0.4.0", "name": BRIDGE, "plugins": [bridge]}
    (configuration / "bridge.conflist").write_text(json.dumps(content))
    return configuration


def _ip(*arguments: str) -> None:
    command = ("ip", *arguments)
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  words of ours
