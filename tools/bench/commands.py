"""
Measure the processor time of `kubectl numa` commands, from start to end.

Each command runs in a separate process, as a user runs it, and its user and system time counts. The nodes
come from a snapshot file. They are of 36 makes, and all different.
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

from tools.bench import cluster
from tools.bench.tables import Measurement, program, row

SNAPSHOT = ("--snapshot", "cluster.json")
POD = ("-f", "pod.json", *SNAPSHOT)
COMMANDS: Mapping[str, Sequence[str]] = {
    "--version": (),
    "--help": (),
    "explain": POD,
    "check": POD,
    "nodes": SNAPSHOT,
    "shapes": SNAPSHOT,
}
"""Commands and their flags; the first two need no cluster, and import almost nothing."""
MOST_SECONDS = {"--version": 0.3, "explain": 2}
"""Targets, with 5,000 nodes."""


def _seconds(words: Sequence[str], folder: Path) -> float:
    """Return the processor time of a command in seconds; raise `CalledProcessError` if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kubectl_numa", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own program
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(chosen: Namespace) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "cluster.json").write_bytes(orjson.dumps(cluster.snapshot(chosen.nodes)))
        (folder / "pod.json").write_bytes(orjson.dumps(next(cluster.pods(1, "team"))))
        rows = []
        for name, flags in COMMANDS.items():
            took = median(_seconds((name, *flags), folder) for _ in range(chosen.repeats))
            rows.append(row(f"kubectl numa {name}", took, "s", most=MOST_SECONDS.get(name)))
    yield Measurement(
        f"Commands: {chosen.nodes:,} nodes of 36 makes",
        rows,
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
