"""
Measure the agent's memory and CPU time on a node, and how late it reports.

    python -m tools.bench.agent              at rest, then with 110 pods, of which ten change every second
    python -m tools.bench.agent --imports    memory of libraries, including those that the agent avoids

Memory is the resident memory and CPU time the processor time of the agent's process alone. The delay is from
the moment when the kubelet writes the exclusive CPUs of a pod into its checkpoint until a watch of topologies
shows them. The kubelet is a real one on a simulated machine. Where no real one is available, the kubelet and
the API server are simulated.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.bench import agent_sites, command_line
from tools.bench.agent_sites import AgentSite
from tools.bench.figures import quantile, table
from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets.build import USUAL

KIB_IN_MIB = 1024
PERCENT = 100

IMPORTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
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
)
"""Modules to import, by their name in the table of `--imports`."""

_RESIDENT = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a process: resident MiB, and percent of one processor."""

    mib: float
    percent: float

    def document(self) -> dict[str, float]:
        """Return the figures for a file."""
        return {"mib": self.mib, "percent": self.percent}


def processor_seconds(pid: int) -> float:
    """Return the user and system time of a process so far, in seconds (proc(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / KIB_IN_MIB for line in lines if line.startswith("VmRSS"))


async def usage(pid: int, seconds: float) -> Usage:
    """Return the usage over so many seconds, with the memory at their end."""
    began, before = time.monotonic(), processor_seconds(pid)
    await asyncio.sleep(seconds)
    spent = processor_seconds(pid) - before
    return Usage(resident_mib(pid), PERCENT * spent / (time.monotonic() - began))


async def change(site: AgentSite, names: list[str], rate: float, seconds: float) -> None:
    """Remove the oldest pod and add one in turn, at `rate` changes a second; keep the number of pods."""
    due, number = time.monotonic(), len(names)
    for turn in range(2 * round(rate * seconds / 2)):
        if turn % 2:
            names.append(f"pod-{number}")
            number += 1
            await site.add(names[-1])
        else:
            await site.remove(names.pop(0))
        due += 1 / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def measured(site: AgentSite, args: argparse.Namespace) -> dict[str, Any]:
    """Return the figures at rest, with pods, and while pods change."""
    pid = (await site.start(*args.flag)).process.pid
    # The start is not part of the figures at rest.
    await asyncio.sleep(args.settling)
    rest = await usage(pid, args.seconds)
    names = [f"pod-{number}" for number in range(args.pods)]
    for name in names:
        await site.add(name)
    await site.running(len(names))
    full = await usage(pid, args.seconds)
    site.lateness.forget()
    changing = asyncio.create_task(change(site, names, args.rate, args.seconds))
    busy = await usage(pid, args.seconds)
    await changing
    # The last changes are published in the next round.
    await asyncio.sleep(1)
    late = site.lateness.seconds()
    return {
        "kubelet": site.kubelet,
        "pods": args.pods,
        "rate": args.rate,
        "rest": rest.document(),
        "full": full.document(),
        "busy": busy.document(),
        "told": len(late),
        "late_ms": {key: 1000 * quantile(late, share) for key, share in (("p50", 0.5), ("p99", 0.99))},
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure beside a real kubelet, or a played one if that is requested or there is no real one."""
    if not args.played:
        try:
            async with agent_sites.real(args.version) as site:
                return await measured(site, args)
        except UnavailableError as error:
            sys.stderr.write(f"NO REAL KUBELET IS AVAILABLE, SO IT IS SIMULATED: {error}\n")
    async with agent_sites.played() as place:
        return await measured(place, args)


def imported() -> dict[str, float]:
    """Return the resident MiB after each import, by its name."""
    return {what: _imported(modules) for what, modules in IMPORTS.items()}


def _imported(modules: Sequence[str]) -> float:
    code = f"import {', '.join(modules)}\n{_RESIDENT}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    return int(found.stdout) / KIB_IN_MIB


def rows(found: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the rows of the table."""
    for key, what in (
        ("rest", "at rest"),
        ("full", f"{found['pods']} pods, none of which change"),
        ("busy", f"{found['pods']} pods, {found['rate']:g} changes per second"),
    ):
        yield what, f"{found[key]['mib']:.1f} MiB", f"{found[key]['percent']:.2f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures; return 0."""
    args = _parser().parse_args(arguments)
    if args.imports:
        print(table(("imported", "MiB"), [(what, f"{mib:.1f}") for what, mib in imported().items()]))
        return 0
    found = asyncio.run(measure(args))
    print(table((f"kubelet: {found['kubelet']}", "resident memory", "of one processor"), rows(found)))
    late = found["late_ms"]
    print(
        f"from the kubelet's checkpoint to a watch, {found['told']} pods: p50 {late['p50']:.0f} ms,"
        f" p99 {late['p99']:.0f} ms"
    )
    command_line.write(found, args.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.agent", __doc__)
    parser.add_argument("--imports", action="store_true", help="measure the memory of libraries instead")
    parser.add_argument("--played", action="store_true", help="simulate the kubelet and the API server")
    parser.add_argument("--version", default=USUAL, help=f"version of the real kubelet (default {USUAL})")
    parser.add_argument(
        "--pods", type=command_line.number, default=110, help="pods on the node (default 110)"
    )
    parser.add_argument("--rate", type=float, default=10.0, help="changes of pods per second (default 10)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="duration of each measurement (default 30)"
    )
    parser.add_argument(
        "--settling",
        type=float,
        default=5.0,
        help="seconds from the start to the measurement at rest (default 5)",
    )
    parser.add_argument(
        "--flag", action="append", default=[], help="a flag for the agent; repeat it for several"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
