"""A cluster with one node that runs images: from `kubectl apply` to a running process.

The node is the real kubelet with containerd and runc, in namespaces of their own: their mounts and processes
end with them. Each pod has an address on a bridge that this machine can reach; addresses are not translated.
The only Service that pods call is that of the API server; its address is one of the bridge.
"""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.clusters import builds
from tools.clusters.api_objects import make_ready
from tools.clusters.api_requests import ask
from tools.clusters.certificates import pair
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Place, Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets.clusters import towards_kubelets, trust
from tools.clusters.kubelets.kubelets import BASE
from tools.clusters.processes import Child, Children, run, until
from tools.clusters.wires import wire

PACKAGES = {"ctr": "containerd", "ip": "iproute2"}
PROGRAMS = ("buildah", "containerd", "ctr", "runc", "ip", "mmdebstrap", "umoci")
"""What builds images and runs them; most are in a Debian package of the same name."""

PLUGINS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
"""Folders of network plugins: that of their release archives, and Debian's (containernetworking-plugins)."""

NODE = "node-1"
USER = f"system:node:{NODE}"

BRIDGE, ADDRESS, PODS = "numalign0", "10.88.0.1", "10.88.0.0/16"
API_SERVER = "10.0.0.1"
"""The address of the Service `kubernetes`, the first of the range of `tools.clusters.controlplane.planes`."""

_UNSHARED = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")
_CONTROLLERS = (
    *schedulers.WORKLOADS,
    # Those that direct Services to running pods, and create the accounts of pods.
    *("endpointslice-controller", "endpoints-controller"),
    *("serviceaccount-controller", "root-ca-certificate-publisher-controller"),
)

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
    **BASE,
    # It listens only on the bridge, so the usual port stays free on other addresses.
    "address": ADDRESS,
    "evictionHard": {"memory.available": "50Mi"},
    "syncFrequency": "1s",
    # The alignment that numalign is made for. One CPU is reserved for pods without exclusive CPUs.
    "cpuManagerPolicy": "static",
    "systemReserved": {"cpu": "500m"},
    "topologyManagerPolicy": "single-numa-node",
}


NodeImages = tuple[Sequence[Path], str]
"""Archives of a node's images, and the name of the sandbox image, which holds the namespaces of pods."""


@dataclass(frozen=True, slots=True)
class ContainerCluster:
    """The control plane, and the kubelet of the node."""

    plane: Plane
    node: Child


async def find() -> Path:
    """Return the kubelet's program, built first if necessary.

    Raise `UnavailableError` with all that is missing on this machine, and `BrokenError` if the build fails.
    """
    if lacking := missing():
        raise UnavailableError(f"no container can run here: {lacking}")
    program, _ = await builds.kubelet()
    return program


def missing() -> str:
    """Return what this machine lacks to run containers, with a remedy; empty if nothing."""
    if os.geteuid():
        return "want user 0: a kubelet runs as root, and so does a container runtime"
    packages = {PACKAGES.get(program, program) for program in PROGRAMS if not shutil.which(program)}
    if not _plugins():
        packages.add("containernetworking-plugins")
    if packages:
        return f"install {' '.join(sorted(packages))}"
    tried = subprocess.run([*_UNSHARED, "true"], capture_output=True, check=False)  # noqa: S603  the constant above
    return f"no namespaces: {tried.stderr.decode(errors='replace').strip()}" if tried.returncode else ""


def _plugins() -> list[Path]:
    return [folder for folder in PLUGINS if (folder / "bridge").is_file()]


@asynccontextmanager
async def cluster(
    children: Children, folder: Path, *, binaries: Path, kubelet: Path, images: NodeImages
) -> AsyncIterator[ContainerCluster]:
    """Run a cluster whose node is ready and has these images; its files are in an empty folder.

    The API server calls pods behind a Service at their own addresses. Pods call it with the service accounts
    that the real controllers create.
    """
    place = Place(binaries, folder, pair(folder / "tls", API_SERVER, ADDRESS))
    plane = Plane(
        children,
        place,
        users={"admin": "system:masters", **schedulers.USERS, USER: "system:nodes"},
        flags=(
            "--enable-aggregator-routing=true",
            f"--advertise-address={ADDRESS}",
            *towards_kubelets(folder / "tls"),
        ),
        without=(),
    )
    managed = schedulers.controllers(
        children, plane, names=_CONTROLLERS, flags=(f"--root-ca-file={place.pair.ca}",)
    )
    async with _network(plane.port):
        await plane.start()
        running = _node(children, plane, kubelet, images)
        async with managed, schedulers.scheduler(children, plane), running as node:
            yield ContainerCluster(plane, node)


@asynccontextmanager
async def _network(port: int) -> AsyncIterator[None]:
    """Let pods reach the API server at a `port` of 127.0.0.1 as https://10.0.0.1, during the block."""
    with suppress(subprocess.CalledProcessError):
        # A killed run leaves its bridge behind.
        _ip("link", "delete", BRIDGE)
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{ADDRESS}/16", "dev", BRIDGE)
        _ip("addr", "add", f"{API_SERVER}/32", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        async with wire(API_SERVER, 443) as service:
            service.where = lambda: port
            yield
    finally:
        _ip("link", "delete", BRIDGE)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)  # noqa: S603, S607  constants of this module


@asynccontextmanager
async def _node(children: Children, plane: Plane, kubelet: Path, images: NodeImages) -> AsyncIterator[Child]:
    folder, (archives, sandbox) = plane.folder / NODE, images
    folder.mkdir()
    socket, log = folder / "containerd.sock", children.logs / "containerd"
    # The images of the kubelet's runtime are in the namespace of this name.
    client = ("ctr", f"--address={socket}", "--namespace=k8s.io")
    settings, configuration = _containerd(folder, sandbox), folder / "kubelet.json"
    configuration.write_text(json.dumps({**_CONFIGURATION, **trust(plane.folder / "tls")}))
    child = await children.start(
        *(*_UNSHARED, "--kill-child"),
        *("sh", "-c", _STARTING, "sh", "containerd", str(settings), str(log), str(socket)),
        *(str(kubelet), f"--config={configuration}", f"--kubeconfig={plane.kubeconfig(USER, folder)}"),
        *(f"--container-runtime-endpoint=unix://{socket}", f"--hostname-override={NODE}"),
        f"--node-ip={ADDRESS}",
        name="kubelet",
    )

    async def answers() -> bool:
        return socket.exists() and not (await run(*client, "version"))[0]

    try:
        await until(answers, what="containerd answered", child=child)
        for archive in archives:
            code, output = await run(*client, "images", "import", str(archive))
            assert not code, output
        async with plane.client("admin") as api:

            async def is_ready() -> bool:
                answer = await ask(api, "GET", f"/api/v1/nodes/{NODE}")
                conditions = answer.body.get("status", {}).get("conditions", [])
                return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

            await until(is_ready, what=f"{NODE} was ready", child=child)
            await make_ready(api, NODE)
        yield child
    finally:
        await child.end()
        _remove_cgroups()


def _remove_cgroups() -> None:
    """Remove the cgroups of the containers, which ended with their node."""
    for controller in Path("/sys/fs/cgroup").glob("*/k8s.io"):
        for cgroup, _, _ in os.walk(controller, topdown=False):
            with suppress(OSError):
                Path(cgroup).rmdir()


def _containerd(folder: Path, sandbox: str) -> Path:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(folder / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "ipam": addresses}
    network = folder / "cni"
    network.mkdir()
    content = {"cniVersion": "0.4.0", "name": BRIDGE, "plugins": [bridge]}
    (network / "bridge.conflist").write_text(json.dumps(content))
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
  bin_dir = "{_plugins()[0]}"
  conf_dir = "{network}"
""")
    return file
