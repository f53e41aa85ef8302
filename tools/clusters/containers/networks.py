"""A network for pods: a bridge of this machine, where each pod has an address that this machine can reach.

Addresses are not translated. The only Service that pods call is that of the API server; its address is one
of the bridge.
"""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tools.clusters.wires import wire

BRIDGE = "numalign0"
ADDRESS = "10.88.0.1"
PODS = "10.88.0.0/16"
API_SERVER = "10.0.0.1"
"""The address of the Service `kubernetes`, the first of the range of `tools.clusters.controlplane.planes`."""

HTTPS = 443


@asynccontextmanager
async def network(port: int) -> AsyncIterator[None]:
    """Let pods reach the API server at a `port` of 127.0.0.1 as https://10.0.0.1, during the block."""
    with suppress(subprocess.CalledProcessError):
        # A killed run leaves its bridge behind.
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
    """Write the network's configuration for containerd, and return its folder."""
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
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  constants of this module
