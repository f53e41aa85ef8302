"""
Measure the time and the memory of `kubectl numa check -A` in a large cluster.

The cluster is a snapshot file as `kubectl numa snapshot --with-pods` writes it, with nodes of twenty models
and pods of a few hundred workloads on all of them.
`python -m tools.bench.offenders` prints the seconds of the whole command, from start to end, and its peak
memory. It also prints what the same check costs in the controller, which knows the cluster already and
checks it every half minute: the processor time of its first check and of the next one, and the growth of its
memory.
"""

import argparse
import asyncio
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from prometheus_client import CollectorRegistry

from controller.reports.offenders import OffenderReports
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import PODS_IN_FILES
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.model.intent import Match
from numalign.runtime import logs
from numalign.scheduling.scheduler_state import SchedulerState
from tools.bench import cluster
from tools.bench.command_line import number, parser
from tools.bench.fleets import Raw

TEMPLATES = 200
NAMESPACES = 50
_MIB = 1024


def pods(count: int, nodes: int) -> Iterator[Raw]:
    """Yield running pods whose owners request alignment or not; no agent has observed them."""
    made = [each.pod for each in cluster.templates(TEMPLATES)]
    for at in range(count):
        pod = made[at % TEMPLATES]
        name = f"pod-{at:06}"
        metadata = {**pod["metadata"], "name": name, "uid": name, "namespace": f"team-{at % NAMESPACES}"}
        spec = {**pod["spec"], "nodeName": f"node-{at % nodes:05}"}
        running = {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        yield PODS_IN_FILES.described(running)


def measure(nodes: int, count: int) -> tuple[float, float]:
    """Return the seconds and the MiB of one call; raise `CalledProcessError` if it fails."""
    listed = cluster.snapshot(nodes)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_bytes(orjson.dumps({**listed, "items": [*listed["items"], *pods(count, nodes)]}))
        program = [sys.executable, "-m", "kubectl_numa", "check", "-A", "--snapshot", str(file)]
        began = time.perf_counter()
        called = subprocess.Popen(program, stdout=subprocess.DEVNULL)  # noqa: S603  our own program
        _, status, usage = os.wait4(called.pid, 0)
        called.returncode = os.waitstatus_to_exitcode(status)
        if called.returncode not in {0, 1}:
            raise subprocess.CalledProcessError(called.returncode, program)
        return time.perf_counter() - began, usage.ru_maxrss / _MIB


async def looks(nodes: int, count: int) -> tuple[list[float], float]:
    """Return the processor seconds of two checks of a controller with so many pods, and its growth in MiB."""
    log = logs.to(io.StringIO(), level="error", form="text")
    policy = PolicyKeeper(None, log=log, registry=CollectorRegistry())
    state = SchedulerState(
        Reservations(), policy=policy, match=Match.SATISFIES, clock=time.monotonic, wall=time.time
    )
    reports = OffenderReports(state=state, unknown_may_fit=True)
    state.watchers = (reports.alignments.update_pod,)
    informer = PodInformer(
        state, state.reader, recreated=RecreatedScheduling(), log=log, registry=CollectorRegistry()
    )
    await state.update_snapshot(snapshot.of([cluster.snapshot(nodes)]))
    for pod in pods(count, nodes):
        informer.put(pod)
    before, seconds = _resident_mib(), []
    for _ in range(2):
        began = time.process_time()
        await reports.reports()
        seconds.append(time.process_time() - began)
    return seconds, _resident_mib() - before


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB**2


def main() -> int:
    """Measure once and print the figures; return 0."""
    options = arguments().parse_args()
    (first, second), growth = asyncio.run(looks(options.nodes, options.pods))
    print(f"controller: {first:.1f} s, then {second:.1f} s of processor time; it grew by {growth:.0f} MiB")
    seconds, memory = measure(options.nodes, options.pods)
    print(f"{options.pods:,} pods on {options.nodes:,} nodes: {seconds:.1f} s, peak {memory:.0f} MiB")
    return 0


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    made = parser("tools.bench.offenders", __doc__)
    made.add_argument("--nodes", type=number, default=5000, help="nodes of the cluster (default 5000)")
    made.add_argument("--pods", type=number, default=50_000, help="pods of the cluster (default 50000)")
    return made


if __name__ == "__main__":
    sys.exit(main())
