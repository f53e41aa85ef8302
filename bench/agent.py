"""
What the agent takes of a node, and how late it is: beside a real kubelet, whose machine is made up.

    python -m bench.agent              at rest, then among 110 pods of which ten change every second
    python -m bench.agent --imports    what libraries take in memory that the daemon does without

Memory is what is resident, the processor's time that of the agent's process alone. How late: from the moment
when the kubelet wrote down that a pod has CPUs of its own until whoever watches topologies is told of them.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from bench import command_line
from bench.figures import quantile, table
from harness.api_objects import Store
from harness.api_requests import ask
from harness.gotools import UnavailableError
from harness.kubelets.clusters import RealCluster, started
from harness.kubelets.kubelets import RealKubelet, RealNode
from harness.processes import Child, program
from harness.shipped import DEPLOY, documents
from harness.waiting import seconds_until
from numalign.kube.decode import kubelet_reports
from numalign.kube.decode.kubelet_reports import PLACEMENTS

Json = dict[str, Any]

NODE, GPU = "bench", "example.com/gpu"
PODS_PATH = "/api/v1/namespaces/default/pods"
TOPOLOGY_PATH = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE}"
TOPOLOGIES_PATH = TOPOLOGY_PATH.rpartition("/")[0]

CPUS, GIB = 128, 1 << 30
LONGEST_START = 60.0
MACHINE: Json = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[core, core + CPUS // 2] for core in range(32 * zone, 32 * zone + 32)],
            "memory": 256 * GIB,
            "reservedMemory": GIB,
            "distances": [10 if other == zone else 21 for other in (0, 1)],
        }
        for zone in (0, 1)
    ],
    "reservedSystemCPUs": f"0,{CPUS // 2}",
    "devices": {
        GPU: [{"id": f"gpu{zone}{number}", "zones": [zone]} for zone in (0, 1) for number in range(4)]
    },
}
CONFIGURATION: Mapping[str, object] = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "maxPods": 200,
}

FLEET = {
    "the daemon": ("agent.daemon",),
    "the first stage": ("agent.__main__",),
    "Python alone": ("sys",),
    "asyncio": ("asyncio",),
    "aiohttp": ("aiohttp",),
    "kubernetes_asyncio": ("kubernetes_asyncio",),
    "pydantic and PyYAML": ("pydantic", "yaml"),
    "h2 and protobuf": ("h2.connection", "google.protobuf.message"),
    "grpcio": ("grpc.aio",),
    "http.client with TLS": ("http.client", "ssl"),
}
"""What is imported, by what it is called in the table of `--imports`."""

_RESIDENT = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process takes: KiB that are resident, and the share of one processor."""

    kib: int
    share: float


@dataclass
class Lateness:
    """When the kubelet wrote down what pods hold, and when whoever watches was told, by UID."""

    taken: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)

    def seconds(self) -> list[float]:
        """Of each pod that was told of."""
        return sorted(self.told[uid] - self.taken[uid] for uid in self.told.keys() & self.taken.keys())


def processor_seconds(pid: int) -> float:
    """What a process took of processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    """What of its memory is resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def usage(pid: int, seconds: float) -> Usage:
    """Over so many seconds; the memory at their end."""
    began, before = time.monotonic(), processor_seconds(pid)
    await asyncio.sleep(seconds)
    spent = processor_seconds(pid) - before
    return Usage(resident_kib(pid), spent / (time.monotonic() - began))


@asynccontextmanager
async def site(version: str | None) -> AsyncIterator[tuple[RealCluster, RealKubelet, ApiClient]]:
    """A control plane that knows topologies, and one kubelet at it."""
    node = RealNode(name=NODE, machine=MACHINE, configuration=CONFIGURATION)
    chosen = {"version": version} if version else {}
    async with started([node], **chosen) as cluster, cluster.plane.client("admin") as admin:  # type: ignore[arg-type]
        store = Store(admin)
        for document in documents(DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        yield cluster, cluster.kubelets[NODE], admin


async def agent_of(cluster: RealCluster, kubelet: RealKubelet, *flags: str) -> Child:
    """An agent beside a kubelet; its API server's administrator, for what is measured are no rights."""
    folder = cluster.folder / "agent"
    folder.mkdir(exist_ok=True)
    return await cluster.children.start(
        program("numalign-agent"),
        f"--node-name={NODE}",
        f"--podresources-socket={kubelet.podresources}",
        f"--kubelet-state={kubelet.state}",
        f"--sysfs={kubelet.sysfs}",
        f"--node-address={kubelet.address}",
        f"--kubelet-port={kubelet.port}",
        f"--kubeconfig={cluster.plane.kubeconfig('admin', folder)}",
        "--metrics-port=0",
        *flags,
    )


async def follow(admin: ApiClient, lateness: Lateness) -> None:
    """Note when each pod is told of, from what a watch says."""
    query = {"watch": "true", "resourceVersion": "0", "allowWatchBookmarks": "false"}
    configuration, session = admin.configuration, admin.rest_client.pool_manager
    headers = {"Authorization": configuration.api_key["BearerToken"]} if configuration.api_key else {}
    headers |= dict(admin.default_headers)
    url = f"{configuration.host}{TOPOLOGIES_PATH}"
    async with session.get(url, params=query, headers=headers, timeout=None) as answer:
        # A line is longer than a line usually is.
        pieces = b""
        async for piece in answer.content.iter_any():
            *lines, pieces = (pieces + piece).split(b"\n")
            for line in lines:
                _note(orjson.loads(line), lateness)


def _note(event: Json, lateness: Lateness) -> None:
    now = time.time()
    text = event["object"]["metadata"].get("annotations", {}).get(PLACEMENTS)
    for uid, placement in kubelet_reports.read_placements(text).items() if text else ():
        if placement.cpus:
            lateness.told.setdefault(uid, now)


async def overhear(kubelet: RealKubelet, lateness: Lateness) -> None:
    """Note when the kubelet writes down that a pod has CPUs."""
    checkpoint, seen = kubelet.state / "cpu_manager_state", 0
    while True:
        with suppress(OSError, ValueError):
            modified = checkpoint.stat().st_mtime_ns
            if modified != seen:
                entries = json.loads(checkpoint.read_text()).get("entries") or {}
                for uid in entries:
                    lateness.taken.setdefault(uid, modified / 1e9)
                seen = modified
        await asyncio.sleep(0.005)


def pod(name: str, cpus: int) -> Json:
    """One with CPUs of its own, or with none."""
    amounts = {"cpu": str(cpus) if cpus else "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def fill(admin: ApiClient, count: int) -> list[str]:
    """So many pods, each with a CPU of its own, once all of them run."""
    names = [f"pod-{number}" for number in range(count)]
    for name in names:
        await ask(admin, "POST", PODS_PATH, pod(name, 1))
    while True:
        found = (await ask(admin, "GET", PODS_PATH)).body["items"]
        if sum(each["status"].get("phase") == "Running" for each in found) >= count:
            return names
        await asyncio.sleep(0.5)


async def churn(admin: ApiClient, names: list[str], rate: float, seconds: float) -> None:
    """Delete the oldest and create another, so many of either a second."""
    end, number = time.monotonic() + seconds, len(names)
    due = time.monotonic()
    while time.monotonic() < end:
        gone = names.pop(0)
        await ask(admin, "DELETE", f"{PODS_PATH}/{gone}", gracePeriodSeconds="0")
        due += 1 / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        names.append(f"pod-{number}")
        await ask(admin, "POST", PODS_PATH, pod(names[-1], 1))
        number += 1
        due += 1 / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def measured(args: argparse.Namespace) -> Json:
    """At rest, then among changes."""
    async with site(args.version) as (cluster, kubelet, admin):
        agent = await agent_of(cluster, kubelet, *args.flag)
        await seconds_until(
            lambda: ask(admin, "GET", TOPOLOGY_PATH),
            lambda answer: answer.code == HTTPStatus.OK,
            what="the agent had published",
            within=LONGEST_START,
        )
        pid = agent.process.pid
        # What the start took is no rest.
        await asyncio.sleep(args.settling)
        rest = await usage(pid, args.seconds)
        lateness = Lateness()
        watching = [
            asyncio.create_task(follow(admin, lateness)),
            asyncio.create_task(overhear(kubelet, lateness)),
        ]
        names = await fill(admin, args.pods)
        full = await usage(pid, args.seconds)
        lateness.taken.clear()
        lateness.told.clear()
        changing = asyncio.create_task(churn(admin, names, args.rate, args.seconds))
        busy = await usage(pid, args.seconds)
        await changing
        await asyncio.sleep(2)
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        return {
            "pods": args.pods,
            "rate": args.rate,
            "rest": _plain(rest),
            "full": _plain(full),
            "busy": _plain(busy),
            "late": lateness.seconds(),
            "log": cluster.children.said().get("numalign-agent", "") if args.verbose else "",
        }


def _plain(found: Usage) -> Json:
    return {"mib": found.kib / 1024, "share": found.share}


def imported() -> dict[str, float]:
    """MiB that are resident once something is imported, by what it is."""
    return {what: _imported(modules) for what, modules in FLEET.items()}


def _imported(modules: Sequence[str]) -> float:
    code = f"import {', '.join(modules)}\n{_RESIDENT}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    return int(found.stdout) / 1024 if found.returncode == 0 else float("nan")


def _rows(found: Json) -> Iterator[Sequence[str]]:
    for key, what in (
        ("rest", "at rest"),
        ("full", f"{found['pods']} pods, none of which changes"),
        ("busy", f"{found['pods']} pods, {found['rate']:g} changes a second"),
    ):
        yield what, f"{found[key]['mib']:.1f} MiB", f"{100 * found[key]['share']:.2f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print what was found."""
    args = _parser().parse_args(arguments)
    if args.imports:
        print(table(("imported", "MiB"), [(what, f"{mib:.1f}") for what, mib in imported().items()]))
        return 0
    try:
        found = asyncio.run(measured(args))
    except UnavailableError as error:
        sys.stderr.write(f"REAL KUBELETS CANNOT BE HAD HERE: {error}\n")
        return os.EX_UNAVAILABLE
    print(table(("the agent", "resident", "of one processor"), _rows(found)))
    late = found["late"]
    if late:
        shown = [f"{1000 * quantile(late, share):.0f} ms" for share in (0.5, 0.99)]
        print(
            f"from the kubelet's checkpoint to a watch, of {len(late)} pods: p50 {shown[0]}, p99 {shown[1]}"
        )
    if found["log"]:
        print(found["log"])
    command_line.write(found, args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("bench.agent", __doc__)
    parser.add_argument("--imports", action="store_true", help="measure libraries in place of the agent")
    parser.add_argument("--version", help="of the kubelet")
    parser.add_argument("--pods", type=command_line.number, default=110)
    parser.add_argument("--rate", type=float, default=10.0, help="changes a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--settling", type=float, default=5.0, help="seconds between start and rest")
    parser.add_argument("--flag", action="append", default=[], help="one more flag of the agent")
    parser.add_argument("--verbose", action="store_true", help="show the last lines of the agent's log")
    return parser


if __name__ == "__main__":
    sys.exit(main())
