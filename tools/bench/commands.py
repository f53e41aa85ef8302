"""
Measure the processor time of `kubectl numa` commands, from start to end.

Each command runs in a separate process, as a user runs it, and its user and system time counts. The nodes
come from a snapshot file. They are of `MAKES` makes, and all different.
"""

import resource
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import orjson

from numalign.model.intent import POLICY, Policy
from numalign.model.resources import render
from tools.bench.fleets import Case, Raw, objects
from tools.bench.tables import Measurement, program, row

MAKES = 36
COMMANDS: Mapping[str, Sequence[str]] = {
    "--version": (),
    "--help": (),
    "explain": ("-f", "pod.json", "--snapshot", "cluster.json"),
    "check": ("-f", "pod.json", "--snapshot", "cluster.json"),
    "nodes": ("--snapshot", "cluster.json"),
    "shapes": ("--snapshot", "cluster.json"),
}
"""Commands and their flags; the first two need no cluster, and import almost nothing."""
MOST_SECONDS = {"--version": 0.3, "explain": 2}
"""Targets, with 5,000 nodes."""


def _pod(case: Case) -> Raw:
    """Return the pod of a case."""
    amounts = {name: render(name, asked) for name, asked in case.question(0).demand.total.items()}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": "p", "annotations": {POLICY: case.asks}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def _seconds(words: Sequence[str], folder: Path) -> float:
    """Return the processor time of a command in seconds; raise `CalledProcessError` if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kubectl_numa", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own program
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Measure each command."""
    case = Case.mixed(chosen.nodes, MAKES, Policy.SINGLE_NUMA_NODE)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects(case.members()))}
        (folder / "cluster.json").write_bytes(orjson.dumps(listed))
        (folder / "pod.json").write_bytes(orjson.dumps(_pod(case)))
        seconds = {
            name: median([_seconds((name, *flags), folder) for _ in range(chosen.repeats)])
            for name, flags in COMMANDS.items()
        }
    yield Measurement(
        f"Commands: {chosen.nodes:,} nodes of {MAKES} makes",
        [
            row(f"kubectl numa {name}", took, "s", most=MOST_SECONDS.get(name))
            for name, took in seconds.items()
        ],
        "Separate processes, from start to end, which read the nodes from a file. Processor time.",
    )


main = program(
    "commands",
    __doc__,
    measure,
    nodes=(5000, 36, "nodes of the cluster"),
    repeats=(5, 1, "runs of each command"),
)

if __name__ == "__main__":
    sys.exit(main(None))
