"""
How long `kubectl numa check -A` takes in a large cluster, and how much memory.

The cluster is a snapshot file, as `kubectl numa snapshot --with-pods` writes it: nodes of twenty models, and
pods of a few hundred workloads all over them.
`python -m bench.offenders` prints the seconds of the whole command, from its start to its end, and the memory
at its peak.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench import cluster
from bench.command_line import number, parser
from bench.fleets import Raw
from numalign.kube.kinds import PODS_IN_FILES

TEMPLATES = 200
NAMESPACES = 50
_MIB = 1024


def pods(count: int, nodes: int) -> Iterator[Raw]:
    """Pods that run, whose owners ask for alignment or not; nobody observed them."""
    made = [each.pod for each in cluster.templates(TEMPLATES)]
    for at in range(count):
        pod = made[at % TEMPLATES]
        name = f"pod-{at:06}"
        metadata = {**pod["metadata"], "name": name, "uid": name, "namespace": f"team-{at % NAMESPACES}"}
        spec = {**pod["spec"], "nodeName": f"node-{at % nodes:05}"}
        running = {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        yield PODS_IN_FILES.described(running)


def measure(nodes: int, count: int) -> tuple[float, float]:
    """Seconds and MiB of one call."""
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


def main() -> int:
    """Measure once, and say what it took."""
    options = arguments().parse_args()
    seconds, memory = measure(options.nodes, options.pods)
    print(f"{options.pods:,} pods on {options.nodes:,} nodes: {seconds:.1f} s, {memory:.0f} MiB")
    return 0


def arguments() -> argparse.ArgumentParser:
    """What can be set."""
    made = parser("bench.offenders", __doc__)
    made.add_argument("--nodes", type=number, default=5000, help="of the cluster (default 5000)")
    made.add_argument("--pods", type=number, default=50_000, help="of the cluster (default 50000)")
    return made


if __name__ == "__main__":
    sys.exit(main())
