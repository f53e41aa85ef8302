"""A real kubelet with containerd, in namespaces of their own: their mounts and processes end with them."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.clusters.api_objects import make_ready
from tools.clusters.api_requests import ask
from tools.clusters.containers import networks
from tools.clusters.containers.build import Parts
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Child, Children, run, until

NAME = "node-1"
USER = f"system:node:{NAME}"
USERS = {USER: "system:nodes"}
"""Users that the plane must know."""

# sh runs this in the new namespaces. It mounts empty file systems at the usual paths, which pods refer to,
# and starts both programs.
_STARTING = """
mount -t tmpfs none /run && mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet /var/log/pods || exit
mount -t tmpfs none /var/log/pods || exit
"$1" --config "$2" > "$3" 2>&1 &
while [ ! -S "$4" ]; do sleep 0.1; done
shift 4
exec "$@"
"""

_CONFIGURATION = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    # It listens only on the bridge, so the usual port stays free on other addresses.
    "address": networks.ADDRESS,
    "authorization": {"mode": "Webhook"},
    # Pods must not depend on the state of this machine.
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {"memory.available": "50Mi"},
    "failCgroupV1": False,
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "oomScoreAdj": 0,
    "nodeStatusUpdateFrequency": "1s",
    "readOnlyPort": 0,
    "staticPodPath": "",
    # The alignment that numalign is made for. One CPU is reserved for pods without exclusive CPUs.
    "cpuManagerPolicy": "static",
    "systemReserved": {"cpu": "500m"},
    "topologyManagerPolicy": "single-numa-node",
    "syncFrequency": "1s",
    "volumePluginDir": "/var/lib/kubelet/volumeplugins",
}


class ContainerError(Exception):
    """Raised if a command of containerd fails; contains its output."""


@dataclass(frozen=True, slots=True)
class NodeImages:
    """Archives of a node's images, and the name of the sandbox image, which holds the namespaces of pods."""

    archives: Sequence[Path]
    sandbox: str


@dataclass(frozen=True, slots=True)
class Node:
    """A running node. `containers` is the log of containerd."""

    child: Child
    socket: Path
    containers: Path

    async def answers(self) -> bool:
        """Return whether containerd answers."""
        return self.socket.exists() and not (await run(*self._client, "version"))[0]

    async def import_image(self, archive: Path) -> None:
        """Load an image from an archive. Raise `ContainerError` if that fails."""
        await self._ctr("images", "import", str(archive))

    async def images(self) -> list[str]:
        """Return the names of the loaded images."""
        return (await self._ctr("images", "list", "--quiet")).split()

    @property
    def _client(self) -> tuple[str, ...]:
        # The images of the kubelet's runtime are in the namespace of this name.
        return ("ctr", f"--address={self.socket}", "--namespace=k8s.io")

    async def _ctr(self, *arguments: str) -> str:
        code, output = await run(*self._client, *arguments)
        if code:
            raise ContainerError(output)
        return output


@asynccontextmanager
async def node(
    children: Children, plane: Plane, parts: Parts, *, images: NodeImages, trust: Mapping[str, object]
) -> AsyncIterator[Node]:
    """
    Run a node that is ready and has these images.

    `trust` is the kubelet's configuration for authentication, from `tools.clusters.kubelets.clusters.trust`.
    The plane must know `USERS`.
    """
    folder = plane.folder / NAME
    folder.mkdir()
    socket, log = folder / "containerd.sock", children.logs / "containerd"
    settings = _containerd(folder, parts, images.sandbox)
    configuration = folder / "kubelet.json"
    configuration.write_text(json.dumps({**_CONFIGURATION, **trust}))
    child = await children.start(
        *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
        *("sh", "-c", _STARTING, "sh", "containerd", str(settings), str(log), str(socket)),
        *(str(parts.kubelet), f"--config={configuration}", f"--kubeconfig={plane.kubeconfig(USER, folder)}"),
        *(f"--container-runtime-endpoint=unix://{socket}", f"--hostname-override={NAME}"),
        f"--node-ip={networks.ADDRESS}",
        name="kubelet",
    )
    running = Node(child, socket, log)
    try:
        await until(running.answers, what="containerd answered", child=child)
        for archive in images.archives:
            await running.import_image(archive)
        await until(partial(_is_ready, plane), what=f"{NAME} was ready", child=child)
        await _without_taints(plane)
        yield running
    finally:
        await child.end()
        _remove_cgroups()


async def _without_taints(plane: Plane) -> None:
    async with plane.client("admin") as api:
        await make_ready(api, NAME)


async def _is_ready(plane: Plane) -> bool:
    async with plane.client("admin") as api:
        answer = await ask(api, "GET", f"/api/v1/nodes/{NAME}")
    conditions = answer.body.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _containerd(folder: Path, parts: Parts, sandbox: str) -> Path:
    network = networks.configure(folder)
    file = folder / "containerd.toml"
    file.write_text(f"""\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  # Lower scores than ours want CAP_SYS_RESOURCE, which root in a container lacks.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{parts.plugins}"
  conf_dir = "{network}"
""")
    return file


def _remove_cgroups() -> None:
    """Remove the cgroups of the containers, which ended with their node."""
    for controller in Path("/sys/fs/cgroup").glob("*/k8s.io"):
        for folder, _, _ in os.walk(controller, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
