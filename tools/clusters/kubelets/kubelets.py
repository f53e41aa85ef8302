"""Real kubelets, each in a mount namespace of its own, on an invented machine.

Files in which hosts differ are mounted over in the namespace: those of `/sys` and `/proc`
(`tools.clusters.kubelets.machines`), the kubelet's state below `/var/lib`, and its logs below `/var/log`. The
kubelet calls an API server as its usual user, `system:node:NAME`, and delegates the authentication and
authorization of its callers to it (TokenReview, SubjectAccessReview), so rights are those of a real cluster.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from numalign.kube.decode.machines import machine as read_machine
from tools.clusters.api_objects import make_ready
from tools.clusters.api_requests import ask
from tools.clusters.controlplane.planes import Plane, Users
from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import machines
from tools.clusters.processes import Child, Children, answers, free_port, memory, until

Json = dict[str, Any]

Devices = Mapping[str, Sequence[Mapping[str, Any]]]
"""The devices that each resource's plugin lists, such as `{"id": "gpu-0", "zones": [0], "healthy": True}`;
the default is healthy. A missing resource has no plugin."""

SECONDS = 20
"""How long a companion may take to answer."""

INSTANCES, LIMIT = 8192, Path("/proc/sys/fs/inotify/max_user_instances")
"""How many instances of inotify each user can have at least, on the whole machine; a kubelet needs six."""

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
    "authorization": {
        "mode": "Webhook",
        "webhook": {"cacheAuthorizedTTL": "1s", "cacheUnauthorizedTTL": "1s"},
    },
}
"""The default configuration of these kubelets; nodes can override all of it."""


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


class Companion:
    """The container runtime of a node and its device plugins, in a program that ends with this process."""

    def __init__(self, *command: str, log: Path) -> None:
        self._command = command
        self._log = log
        self._asking = asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the program, and return when the container runtime can be called."""
        pipe = asyncio.subprocess.PIPE
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )
        await self._answer()

    async def hold(self, devices: Devices) -> bool:
        """Set the devices, and return whether a kubelet knows all plugins; if not, the next one will."""
        async with self._asking:
            assert self.process
            assert self.process.stdin
            self.process.stdin.write(json.dumps({"devices": devices}).encode() + b"\n")
            registered: bool = (await self._answer())["registered"]
        return registered

    async def end(self) -> None:
        """Kill the runtime and all plugins at once; the state of the runtime is lost."""
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def _answer(self) -> Json:
        assert self.process
        assert self.process.stdout
        answer: Json = {"error": f"no answer in {SECONDS} s"}
        with suppress(TimeoutError):
            line = await asyncio.wait_for(self.process.stdout.readline(), SECONDS)
            answer = json.loads(line or '{"error": "it ended"}')
        if "error" in answer:
            pytest.fail(f"a companion failed: {answer['error']}; it wrote to {self._log}")
        return answer


class RealKubelet:
    """A kubelet, its companion and its machine. The plane must know `users`, and an `admin`.

    All paths are those outside its namespace: `sysfs` is what the kubelet sees at `/sys`, `state` what it
    sees at `/var/lib/kubelet`, and `podresources` the socket of the pod resources API. `url` is the address
    of its API.
    """

    def __init__(
        self, node: RealNode, programs: tuple[Path, Path], plane: Plane, children: Children, folder: Path
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
        self.address = _own_address()
        self.port = free_port(self.address)
        self.url = f"https://{self.address}:{self.port}"
        self.log = children.logs / f"kubelet-{node.name}"
        self.child: Child | None = None
        self._healthz = free_port()
        self._program, companion = programs
        self._plane = plane
        self._children = children
        self._listed: Devices = node.devices
        self._known = set(node.devices)
        self._runtime = folder / "cri.sock"
        self._companion = Companion(
            *(str(companion), "-runtime", str(self._runtime), "-plugins", str(longest.parent)),
            log=children.logs / f"companion-{node.name}",
        )

    async def start(self) -> None:
        """Write the machine and start the kubelet; return when its node is ready, with all its devices.

        Raise `BadTopology` if the machine contradicts itself.
        """
        self._write()
        await self._companion.start()
        await self.serve()
        async with self._plane.client("admin") as client:
            await make_ready(client, self.node.name)

    async def serve(self) -> None:
        """Start the kubelet's process, for the first time or again, and return when all of it works."""
        # The socket of the last process would be mistaken for that of the next one.
        (self.state / "device-plugins" / "kubelet.sock").unlink(missing_ok=True)
        # The kubelet deletes the logs of a container by a prefix of their paths. It is empty here, so it
        # matches all files of the working directory (Clean of k8s.io/kubernetes, pkg/kubelet/logs).
        nowhere = self.folder / "cwd"
        nowhere.mkdir(exist_ok=True)
        self.child = await self._children.start(*self._command(), name=self.log.name, cwd=nowhere)
        well = partial(answers, f"http://127.0.0.1:{self._healthz}/healthz")
        await until(well, what="it was well", child=self.child)
        await until(lambda: self._companion.hold(self._listed), what="it knew its plugins", child=self.child)
        await self._until_node(_is_ready, what="its node was ready")
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
        await self._companion.end()

    def delete_state(self) -> None:
        """Delete the managers' checkpoints while the kubelet is down, as for a repair."""
        # There are others, for the sizes of pods: without them, a kubelet without cgroups panics (v1.36.3).
        devices = "device-plugins/kubelet_internal_checkpoint"
        for name in ("cpu_manager_state", "memory_manager_state", devices):
            (self.state / name).unlink(missing_ok=True)

    async def devices(self, devices: Devices) -> None:
        """Set the devices of the plugins; return when the node shows them, if the kubelet runs."""
        self._known.update(devices)
        self._listed = devices
        await self._companion.hold(devices)
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

        await self._until_node(given_out, what=f"it gave out {wanted}")

    async def _until_node(self, right: Callable[[Json], bool], *, what: str) -> None:
        """Return when `right` is true for the Node object, as its own kubelet reads it."""

        async def is_right() -> bool:
            with suppress(aiohttp.ClientError):
                answer = await ask(client, "GET", f"/api/v1/nodes/{self.node.name}")
                return answer.code == 200 and right(answer.body)
            return False

        async with self._plane.client(self.node.user) as client:
            await until(is_right, what=what, child=self.running())

    def running(self) -> Child:
        """Return the kubelet's process; fail if it was not started."""
        assert self.child, f"the kubelet of {self.node.name} does not run"
        return self.child

    def memory(self) -> int:
        assert self._companion.process
        return sum(memory(each.pid).now for each in (self.running().process, self._companion.process))

    def _write(self) -> None:
        try:
            if int(LIMIT.read_text()) < INSTANCES:
                LIMIT.write_text(f"{INSTANCES}\n")
        except OSError as error:
            raise UnavailableError(f"kubelets need {INSTANCES} instances of inotify: {error}") from error
        for name in ("lib", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        described = read_machine(self.node.machine)
        machines.write(described, self.folder)
        own = {
            "address": self.address,
            "port": self.port,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": self._healthz,
            "containerRuntimeEndpoint": f"unix://{self._runtime}",
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
            *("--", str(self._program), "--v=2", *((f"--node-labels={labels}",) if labels else ())),
            *(f"--config={self.folder / 'kubelet.yaml'}", f"--kubeconfig={self.folder / 'kubeconfig'}"),
            *(f"--hostname-override={self.node.name}", f"--node-ip={self.address}"),
        )


@asynccontextmanager
async def running(kubelets: Sequence[RealKubelet]) -> AsyncIterator[dict[str, RealKubelet]]:
    """Run these kubelets during the block, by node name; four start at once."""
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
