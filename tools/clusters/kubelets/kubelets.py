"""Real kubelets, each in a mount namespace of its own, on an invented machine.

Files in which hosts differ are mounted over in the namespace: those of `/sys` and `/proc`
(`tools.clusters.kubelets.machines`), the kubelet's state below `/var/lib`, and its logs below `/var/log`. The
kubelet calls an API server as its usual user, `system:node:NAME`, and delegates the authentication and
authorization of its callers to it (TokenReview, SubjectAccessReview), so rights are those of a real cluster.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp

from numalign.kube.decode.machines import machine as read_machine
from tools.clusters.api_objects import make_ready
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import Plane, Users
from tools.clusters.kubelets import inotify, machines
from tools.clusters.kubelets.build import Programs
from tools.clusters.kubelets.companions import Companion, Devices
from tools.clusters.processes import Child, Children, answers, free_port

Json = dict[str, Any]

CHECKPOINTS = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
)
"""The checkpoints of the managers, below the kubelet's state. There are others, for the sizes of pods:
without them, a kubelet that has no cgroups panics (seen with v1.36.3)."""

START_SECONDS = 60

# sh runs this in the new namespace. Its arguments are pairs of a source and a mount point, then `--` and the
# command to execute.
MOUNTING = """
mount -t tmpfs -o size=1m none /var/lib && mkdir /var/lib/kubelet || exit
while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done
shift
exec "$@"
"""

BASE: Mapping[str, object] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    # There are no cgroups, as the containers do not exist.
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failCgroupV1": False,
    "failSwapOn": False,
    "localStorageCapacityIsolation": False,
    "oomScoreAdj": 0,
    # The host is not changed: no packet filter rules, no folder of plugins.
    "makeIPTablesUtilChains": False,
    "volumePluginDir": "/var/lib/kubelet/volumeplugins",
    "staticPodPath": "",
    # Images are not really pulled.
    "registryPullQPS": 0,
    "serializeImagePulls": False,
    "imageGCHighThresholdPercent": 100,
    "readOnlyPort": 0,
    "nodeStatusUpdateFrequency": "1s",
    "nodeStatusReportFrequency": "10s",
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True, "cacheTTL": "1s"}},
    "authorization": {
        "mode": "Webhook",
        "webhook": {"cacheAuthorizedTTL": "1s", "cacheUnauthorizedTTL": "1s"},
    },
}
"""The default configuration of these kubelets; nodes can override all of it."""


class KubeletError(Exception):
    """Raised if a kubelet ended, or was not ready in time; contains its name and its last errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealNode:
    """A node to start.

    `machine` has the format of the recordings of the kubelet, including devices. `configuration` has fields
    of KubeletConfiguration, which override `BASE` and the fields that are derived from the machine.
    """

    name: str
    machine: Mapping[str, Any]
    configuration: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str:
        return f"system:node:{self.name}"

    @property
    def devices(self) -> Devices:
        devices: Devices = self.machine.get("devices", {})
        return devices


def users(nodes: Iterable[RealNode]) -> Users:
    return {node.user: "system:nodes" for node in nodes}


class RealKubelet:
    """A kubelet, its companion and its machine. The plane must know `users`, and an `admin`.

    All paths are those outside its namespace: `sysfs` is what the kubelet sees at `/sys`, `state` what it
    sees at `/var/lib/kubelet`, and `podresources` the socket of the pod resources API. `url` is the address
    of its API, which it serves with its self-signed `certificate`.
    """

    def __init__(
        self, node: RealNode, programs: Programs, plane: Plane, children: Children, folder: Path
    ) -> None:
        self.node = node
        # The longest path of a socket (unix(7)).
        longest = folder / "lib" / "device-plugins" / "kubelet.sock"
        if len(str(longest)) > 107:
            raise ValueError(f"{longest} is too long for a socket: want a folder with a shorter path")
        self.folder = folder
        self.state = folder / "lib"
        self.sysfs = folder / "sys"
        self.podresources = self.state / "pod-resources" / "kubelet.sock"
        self.certificate = self.state / "pki" / "kubelet.crt"
        self.address = _own_address()
        self.port = free_port(self.address)
        self.url = f"https://{self.address}:{self.port}"
        self.log = children.logs / f"kubelet-{node.name}"
        self.child: Child | None = None
        self._healthz = free_port()
        self._programs = programs
        self._plane = plane
        self._children = children
        self._listed: Devices = node.devices
        self._known = set(node.devices)
        self.companion = Companion(
            programs.companion,
            runtime=folder / "cri.sock",
            plugins=self.state / "device-plugins",
            log=children.logs / f"companion-{node.name}",
        )

    async def start(self) -> None:
        """Write the machine and start the kubelet; return when its node is ready, with all its devices.

        Raise `BadTopology` if the machine contradicts itself, and `KubeletError` if the kubelet is not ready
        in time.
        """
        self._write()
        await self.companion.start()
        await self.serve()
        async with self._plane.client("admin") as client:
            await make_ready(client, self.node.name)

    async def serve(self) -> None:
        """Start the kubelet's process, for the first time or again, and return when all of it works.

        Raise `KubeletError` if that fails.
        """
        # The socket of the last process would be mistaken for that of the next one.
        (self.state / "device-plugins" / "kubelet.sock").unlink(missing_ok=True)
        # The kubelet deletes the logs of a container by a prefix of their paths. It is empty here, so it
        # matches all files of the working directory (Clean of k8s.io/kubernetes, pkg/kubelet/logs).
        nowhere = self.folder / "cwd"
        nowhere.mkdir(exist_ok=True)
        self.child = await self._children.start(*self._command(), name=self.log.name, cwd=nowhere)
        well = partial(answers, f"http://127.0.0.1:{self._healthz}/healthz")
        await self._until(well, what="was well")
        await self._until(lambda: self.companion.hold(self._listed), what="knew its plugins")
        await self._until_node(_is_ready, what="was ready")
        await self._until_devices()

    async def stop(self) -> None:
        """Stop the kubelet as a service manager does; its pods continue."""
        child, self.child = self.running(), None
        await child.stop()

    async def kill(self) -> None:
        """Kill the kubelet at once, like a crash; its pods continue."""
        child, self.child = self.running(), None
        await child.end()

    async def restart(self) -> None:
        """Stop the kubelet and start it again; its pods continue, and its plugins register again."""
        await self.stop()
        await self.serve()

    async def end(self) -> None:
        if self.child:
            await self.kill()
        await self.companion.end()

    def delete_state(self, *names: str) -> None:
        """Delete checkpoints (`CHECKPOINTS` if none is named) while the kubelet is down, as for a repair."""
        for name in names or CHECKPOINTS:
            (self.state / name).unlink(missing_ok=True)

    async def devices(self, devices: Devices) -> None:
        """Set the devices of the plugins; return when the node shows them, if the kubelet runs."""
        self._known.update(devices)
        self._listed = devices
        await self.companion.hold(devices)
        if self.child:
            await self._until_devices()

    async def _until_devices(self) -> None:
        """Return when the allocatable devices of the node are the healthy ones."""
        wanted = {
            resource: sum(one.get("healthy") is not False for one in self._listed.get(resource, ()))
            for resource in sorted(self._known)
        }

        def given_out(node: Json) -> bool:
            allocatable = node["status"].get("allocatable", {})
            return all(int(allocatable.get(resource, 0)) == count for resource, count in wanted.items())

        await self._until_node(given_out, what=f"gave out {wanted}")

    async def _until_node(self, right: Callable[[Json], bool], *, what: str) -> None:
        """Return when `right` is true for the Node object, as its own kubelet reads it."""

        async def is_right() -> bool:
            with suppress(aiohttp.ClientError):
                answer = await ask(client, "GET", f"/api/v1/nodes/{self.node.name}")
                return answer.code == 200 and right(answer.body)
            return False

        async with self._plane.client(self.node.user) as client:
            await self._until(is_right, what=what)

    def running(self) -> Child:
        """Return the kubelet's process; fail if it was not started."""
        assert self.child, f"the kubelet of {self.node.name} does not run"
        return self.child

    def paths(self) -> dict[str, str]:
        names = ("podresources", "sysfs", "state", "url", "log")
        return {name: str(getattr(self, name)) for name in names}

    def memory(self) -> int:
        pids = (self.running().process.pid, self.companion.pid)
        statuses = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
        return sum(int(kib) * 1024 for status in statuses for kib in re.findall(r"VmRSS:\s+(\d+)", status))

    async def get(self, path: str, token: str) -> tuple[int, bytes]:
        # Only this kubelet's certificate is accepted, without a check of its name.
        trust = ssl.create_default_context(cafile=self.certificate)
        trust.check_hostname = False
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(self.url + path, ssl=trust) as answer,
        ):
            return answer.status, await answer.read()

    async def _until(self, true: Callable[[], Awaitable[bool]], *, what: str) -> None:
        deadline = monotonic() + START_SECONDS
        while not await true():
            child = self.running()
            if child.running() and monotonic() <= deadline:
                await asyncio.sleep(0.1)
                continue
            # klog marks errors like this.
            lines = self.log.read_text(errors="replace").splitlines()
            words = "\n".join([line for line in lines if line.startswith(("E", "F", "Error:"))][-5:])
            if not child.running():
                code = child.process.returncode
                raise KubeletError(f"the kubelet of {self.node.name} ended with {code}: {words}")
            late = f"{START_SECONDS} s were not enough until the kubelet of {self.node.name} {what}"
            raise KubeletError(f"{late}: {words}")

    def _write(self) -> None:
        for name in ("lib", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        described = read_machine(self.node.machine)
        machines.write(described, self.folder)
        own = {
            "address": self.address,
            "port": self.port,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": self._healthz,
            "containerRuntimeEndpoint": f"unix://{self.companion.runtime}",
        }
        content = {**BASE, **machines.reservations(described), **own, **self.node.configuration}
        if content.get("memoryManagerPolicy") != "Static":
            del content["reservedMemory"]
        (self.folder / "kubelet.yaml").write_text(json.dumps(content, indent=1))
        self._plane.kubeconfig(self.node.user, self.folder)

    def _command(self) -> Sequence[str]:
        labels = ",".join(f"{name}={value}" for name, value in self.node.labels.items())
        there = [name for name in (*machines.MOUNTED, *machines.TUNABLES) if Path("/", name).exists()]
        mounts = {self.state: "/var/lib/kubelet", self.folder / "log": "/var/log"}
        mounts |= {self.folder / name: f"/{name}" for name in there}
        return (
            *("unshare", "--mount", "--propagation=private", "sh", "-c", MOUNTING, "mounting"),
            *(str(path) for pair in mounts.items() for path in pair),
            *("--", str(self._programs.kubelet)),
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            f"--hostname-override={self.node.name}",
            f"--node-ip={self.address}",
            *((f"--node-labels={labels}",) if labels else ()),
            "--v=2",
        )


@asynccontextmanager
async def running(kubelets: Sequence[RealKubelet]) -> AsyncIterator[dict[str, RealKubelet]]:
    """Run these kubelets during the block, by node name; four start at once.

    Raise `KubeletError` if one is not ready in time, and `UnavailableError` if the kernel allows fewer.
    """
    inotify.require(len(kubelets))
    gate = asyncio.Semaphore(4)

    async def start(kubelet: RealKubelet) -> None:
        async with gate:
            await kubelet.start()

    starts = [asyncio.ensure_future(start(kubelet)) for kubelet in kubelets]
    try:
        await asyncio.gather(*starts)
        yield {kubelet.node.name: kubelet for kubelet in kubelets}
    finally:
        for each in starts:
            each.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        for kubelet in kubelets:
            await kubelet.end()


def _own_address() -> str:
    """Return an address of this machine, not of loopback, which nodes must not have, if it has another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # An address reserved for documentation: connecting only looks up the route, and sends nothing.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
    return address


def _is_ready(node: Json) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
