"""
Measure the processor time of `kubectl numa` commands, from start to end.

Each command runs in a separate process, as a user runs it, and its user and system time counts. The nodes
come from a snapshot file. They are of `MAKES` makes, and all different.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from numalign.model.intent import POLICY, Policy
from numalign.model.resources import render
from tools.bench import command_line, documents
from tools.bench.figures import table
from tools.bench.fleets import Case
from tools.bench.targets import COMMANDS_S
from tools.bench.timing import Times

Raw = dict[str, Any]

MAKES = 36
CLUSTER, POD = "cluster.json", "pod.json"

ALONE: Sequence[Sequence[str]] = (("--version",), ("--help",))
"""Commands that need no cluster."""

ASKED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "explain": ("explain", "-f", POD),
        "check": ("check", "-f", POD),
        "nodes": ("nodes",),
        "shapes": ("shapes",),
    }
)
"""Commands that read a cluster."""


def pod(case: Case) -> Raw:
    """Return the pod of a case."""
    amounts = {name: render(name, asked) for name, asked in case.question(0).demand.total.items()}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {POLICY: case.asks}},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def seconds(arguments: Sequence[str], folder: Path) -> float:
    """Return the processor time of a command in seconds; raise `CalledProcessError` if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "kubectl_numa", *arguments]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own program
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(case: Case, *, repeats: int) -> dict[str, Times]:
    """Return the processor times of each command, by its name."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / CLUSTER).write_bytes(orjson.dumps(documents.listed(case.members())))
        (folder / POD).write_bytes(orjson.dumps(pod(case)))
        commands = {words[0]: words for words in ALONE}
        commands |= {name: (*words, "--snapshot", CLUSTER) for name, words in ASKED.items()}
        return {
            name: Times.of([seconds(words, folder) for _ in range(repeats)])
            for name, words in commands.items()
        }


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.commands", __doc__)
    parser.add_argument("--nodes", type=int, default=5000, help="nodes of the cluster (default 5000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command (default 5)")
    chosen = parser.parse_args()
    case = Case.mixed(chosen.nodes, MAKES, Policy.SINGLE_NUMA_NODE)
    found = measure(case, repeats=chosen.repeats)
    document = {
        "nodes": chosen.nodes,
        "makes": MAKES,
        "repeats": chosen.repeats,
        "cpu_ms": {name: times.millis() for name, times in found.items()},
    }
    command_line.write(document, chosen.json)
    rows = (
        [name, f"{times.median:.2f}", f"{times.best:.2f}", str(COMMANDS_S.get(name, ""))]
        for name, times in found.items()
    )
    print(f"{case}, in seconds of processor time")
    print(table(["kubectl numa", "median", "best", "target"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
