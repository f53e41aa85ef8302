"""Real kubelets, each in a mount namespace of its own, on a machine that was made up.

What a kubelet reads of its host that differs from host to host is mounted over in its namespace: `/sys` and
`/proc` (`harness.kubelets.machines`), its own state below `/var/lib`, its logs below `/var/log`. It talks
to an API server as the user that it would be there, `system:node:NAME`, and has the API server check who
asks it (TokenReview, SubjectAccessReview), so that rights are those of a real cluster.
"""

import asyncio
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

import aiohttp
from kubernetes_asyncio.client.api_client import ApiClient

from harness.api_objects import make_ready
from harness.api_requests import ask
from harness.controlplane.planes import Plane, Users
from harness.gotools import UnavailableError
from harness.kubelets import machines
from harness.kubelets.build import Programs
from harness.kubelets.companions import Companion, Devices
from harness.processes import Child, Children, answers
from numalign.kube.decode.machines import machine as read_machine

Json = dict[str, Any]

LONGEST_SOCKET = 107
"""Bytes of a socket's path (unix(7))."""

CHECKPOINTS = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
)
"""What the managers remember from one start to the next, below the kubelet's state. There is more, of the
sizes of pods: a kubelet that has no cgroups panics without that (seen with v1.36.3)."""

START_SECONDS = 60
LOOK_SECONDS = 0.1
WORDS = 5

PORTS = range(20_000, 32_000)
"""Below those that Linux gives to connections (ip_local_port_range)."""

WATCHES = 6
"""Instances of inotify that a kubelet takes."""

_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")

# Run by sh in the new namespace: pairs of what is mounted where, then the command that it becomes.
MOUNTING = """
mount -t tmpfs -o size=1m none /var/lib && mkdir /var/lib/kubelet || exit
while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done
shift
exec "$@"
"""

BASE: Mapping[str, object] = MappingProxyType(
    {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Nobody makes cgroups here: the containers do not exist.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        # Nothing of the host is changed: no tables of packets, no folder of plugins.
        "makeIPTablesUtilChains": False,
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "staticPodPath": "",
        # Images cost nothing.
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
)
"""What every kubelet here is started with; all of it can be set otherwise."""


class KubeletError(Exception):
    """A kubelet ended, or was not ready in time: which one, and its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealNode:
    """A node to be.

    `machine` is described as in the recordings of the kubelet, devices included; `configuration` has fields
    of KubeletConfiguration, which win over `BASE` and over what follows from the machine.
    """

    name: str
    machine: Mapping[str, Any]
    configuration: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """Whom an API server takes its kubelet for."""
        return f"system:node:{self.name}"

    @property
    def devices(self) -> Devices:
        """Those that the machine is described with."""
        devices: Devices = self.machine.get("devices", {})
        return devices


def users(nodes: Iterable[RealNode]) -> Users:
    """To be among the users of a plane."""
    return {node.user: "system:nodes" for node in nodes}


class RealKubelet:
    """A kubelet, its companion and its machine. The plane must know `users`, and an `admin`.

    All paths are as they are seen from outside its namespace: `sysfs` is what the kubelet finds at `/sys`,
    `state` what it finds at `/var/lib/kubelet`, `podresources` the socket of the pod resources API. `url` is
    where it serves, with the certificate `certificate` that it made itself.
    """

    def __init__(
        self, node: RealNode, programs: Programs, plane: Plane, children: Children, folder: Path
    ) -> None:
        self.node = node
        self.folder = _short(folder)
        self.state = folder / "lib"
        self.sysfs = folder / "sys"
        self.podresources = self.state / "pod-resources" / "kubelet.sock"
        self.certificate = self.state / "pki" / "kubelet.crt"
        self.address = _own_address()
        self.port = steady_port(self.address)
        self.url = f"https://{self.address}:{self.port}"
        self.log = children.logs / f"kubelet-{node.name}"
        self.child: Child | None = None
        self._healthz = steady_port("127.0.0.1")
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
        """The machine is made, and the kubelet started; returns when its node is ready, with all its devices.

        Raises `BadTopology` for a machine that contradicts itself, and `KubeletError`.
        """
        self._write()
        await self.companion.start()
        await self.serve()
        async with self._plane.client("admin") as client:
            await make_ready(client, self.node.name)

    async def serve(self) -> None:
        """Start the kubelet's process, for the first time or again; returns when all of it works.

        Raises `KubeletError`.
        """
        # What is left of the last one would be taken for the next.
        (self.state / "device-plugins" / "kubelet.sock").unlink(missing_ok=True)
        # It removes the logs of a container by how their path begins, which is empty here: all that is where
        # it runs (Clean of k8s.io/kubernetes, pkg/kubelet/logs).
        nowhere = self.folder / "cwd"
        nowhere.mkdir(exist_ok=True)
        self.child = await self._children.start(*self._command(), name=self.log.name, cwd=nowhere)
        well = partial(answers, f"http://127.0.0.1:{self._healthz}/healthz")
        await self._until(well, what="was well")
        await self._until(self._registered, what="knew its plugins")
        await self.until_node(_is_ready, what="was ready")
        await self.until_devices()

    async def stop(self) -> None:
        """Ask it to end, as a service manager does; its pods go on."""
        child, self.child = self.running(), None
        await child.stop()

    async def kill(self) -> None:
        """It ends at once, as of a crash; its pods go on."""
        child, self.child = self.running(), None
        await child.end()

    async def restart(self) -> None:
        """It ends and starts again; its pods go on, and its plugins register anew."""
        await self.stop()
        await self.serve()

    async def end(self) -> None:
        """All of it is gone: kubelet, runtime and plugins."""
        if self.child:
            await self.kill()
        await self.companion.end()

    def delete_state(self, *names: str) -> None:
        """Remove checkpoints (`CHECKPOINTS` if none is named) while it is down, as a repair does."""
        for name in names or CHECKPOINTS:
            (self.state / name).unlink(missing_ok=True)

    async def devices(self, devices: Devices) -> None:
        """Have the plugins list these devices, and no others; returns when the node shows it, if it runs."""
        self._known.update(devices)
        self._listed = devices
        await self.companion.hold(devices)
        if self.child:
            await self.until_devices()

    async def until_devices(self) -> None:
        """Return when the node can give out as many devices as are well."""
        wanted = {resource: _healthy(self._listed.get(resource, ())) for resource in sorted(self._known)}
        await self.until_node(partial(_gives_out, wanted), what=f"gave out {wanted}")

    async def until_node(self, right: Callable[[Json], bool], *, what: str) -> None:
        """Return when the Node object is as it should be, as its own kubelet reads it."""
        async with self._plane.client(self.node.user) as client:
            await self._until(partial(self._node_is, client, right), what=what)

    def running(self) -> Child:
        """The kubelet's process; it must have been started."""
        assert self.child, f"the kubelet of {self.node.name} does not run"
        return self.child

    def paths(self) -> dict[str, str]:
        """Where it can be looked at, by the names of its attributes."""
        names = ("podresources", "sysfs", "state", "url", "log")
        return {name: str(getattr(self, name)) for name in names}

    def memory(self) -> int:
        """Bytes that kubelet and companion hold of memory, all that they share with others included."""
        return sum(map(_resident, (self.running().process.pid, self.companion.pid)))

    async def get(self, path: str, token: str) -> tuple[int, bytes]:
        """Ask the kubelet itself, as whoever bears the token: code and answer."""
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
            session.get(self.url + path, ssl=self.trust()) as answer,
        ):
            return answer.status, await answer.read()

    def trust(self) -> ssl.SSLContext:
        """Takes the certificate that this kubelet made itself, and no other; its name is not looked at."""
        context = ssl.create_default_context(cafile=self.certificate)
        context.check_hostname = False
        return context

    async def _until(self, true: Callable[[], Awaitable[bool]], *, what: str) -> None:
        deadline = monotonic() + START_SECONDS
        while not await true():
            if not self.running().running():
                code = self.running().process.returncode
                raise KubeletError(f"the kubelet of {self.node.name} ended with {code}: {self._last_words()}")
            if monotonic() > deadline:
                late = f"{START_SECONDS} s were not enough until the kubelet of {self.node.name} {what}"
                raise KubeletError(f"{late}: {self._last_words()}")
            await asyncio.sleep(LOOK_SECONDS)

    def _last_words(self) -> str:
        """The last errors in its log, as klog marks them."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line.startswith(("E", "F", "Error:"))][-WORDS:])

    async def _registered(self) -> bool:
        return await self.companion.hold(self._listed)

    async def _node_is(self, client: ApiClient, right: Callable[[Json], bool]) -> bool:
        with suppress(aiohttp.ClientError):
            answer = await ask(client, "GET", f"/api/v1/nodes/{self.node.name}")
            return answer.code == 200 and right(answer.body)
        return False

    def _write(self) -> None:
        for name in ("lib", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        described = read_machine(self.node.machine)
        machines.write(described, self.folder)
        told = {**BASE, **machines.reservations(described), **self._own(), **self.node.configuration}
        if told.get("memoryManagerPolicy") != "Static":
            del told["reservedMemory"]
        (self.folder / "kubelet.yaml").write_text(json.dumps(told, indent=1))
        self._plane.kubeconfig(self.node.user, self.folder)

    def _own(self) -> Json:
        return {
            "address": self.address,
            "port": self.port,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": self._healthz,
            "containerRuntimeEndpoint": f"unix://{self.companion.runtime}",
        }

    def _command(self) -> Sequence[str]:
        labels = ",".join(f"{name}={value}" for name, value in self.node.labels.items())
        return (
            *("unshare", "--mount", "--propagation=private", "sh", "-c", MOUNTING, "mounting"),
            *(word for pair in self._mounts() for word in pair),
            *("--", str(self._programs.kubelet)),
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            f"--hostname-override={self.node.name}",
            f"--node-ip={self.address}",
            *((f"--node-labels={labels}",) if labels else ()),
            "--v=2",
        )

    def _mounts(self) -> list[tuple[str, str]]:
        tunables = [name for name in machines.TUNABLES if Path("/", name).exists()]
        over = [(str(self.folder / name), f"/{name}") for name in (*machines.MOUNTED, *tunables)]
        return [(str(self.state), "/var/lib/kubelet"), (str(self.folder / "log"), "/var/log"), *over]


@asynccontextmanager
async def running(
    kubelets: Sequence[RealKubelet], *, at_once: int = 4
) -> AsyncIterator[dict[str, RealKubelet]]:
    """Have these run, by name of their nodes; so many start `at_once`. All end when this is left.

    Raises `KubeletError`, and `UnavailableError` if the kernel would let fewer run.
    """
    _require_watches(len(kubelets))
    gate = asyncio.Semaphore(at_once)
    starts = [asyncio.ensure_future(_in_turn(gate, kubelet.start)) for kubelet in kubelets]
    try:
        await asyncio.gather(*starts)
        yield {kubelet.node.name: kubelet for kubelet in kubelets}
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        for kubelet in kubelets:
            await kubelet.end()


def _require_watches(kubelets: int) -> None:
    most = int(_INOTIFY.read_text())
    if most < kubelets * WATCHES:
        raise UnavailableError(
            f"fs.inotify.max_user_instances is {most}, and {kubelets} kubelets need {kubelets * WATCHES}:"
            f" raise it, or start at most {most // WATCHES}"
        )


async def _in_turn(gate: asyncio.Semaphore, start: Callable[[], Awaitable[None]]) -> None:
    async with gate:
        await start()


def _own_address() -> str:
    """An address of this machine that is not its loopback, which no node may have; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Reserved for documentation: only the way there is looked up.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
    return address


def steady_port(address: str) -> int:
    """One to listen on that no connection is given meanwhile: kubelets come back to their ports."""
    while True:
        port = random.choice(PORTS)  # noqa: S311  nothing secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind((address, port))
            return port


def _short(folder: Path) -> Path:
    longest = folder / "lib" / "device-plugins" / "kubelet.sock"
    if len(str(longest)) > LONGEST_SOCKET:
        raise ValueError(f"{longest} is too long for a socket: want a folder with a shorter path")
    return folder


def _is_ready(node: Json) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _healthy(devices: Sequence[Mapping[str, Any]]) -> int:
    return sum(one.get("healthy") is not False for one in devices)


def _gives_out(wanted: Mapping[str, int], node: Json) -> bool:
    allocatable = node["status"].get("allocatable", {})
    return all(int(allocatable.get(resource, 0)) == count for resource, count in wanted.items())


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
