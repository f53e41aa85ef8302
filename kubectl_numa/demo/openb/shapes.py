"""
Counts of what the nodes of the trace had and what its pods requested.

The published lists name every node and pod; the rules only need how many were alike. So two small tables of
counts are kept, with the functions that counted them, so that the counts can be reproduced.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from kubectl_numa.demo import DATA
from numalign.simulation.tables import TableLayout, read_table

NODES = "openb-nodes.csv"
PODS = "openb-pods.csv"

SOURCE = (
    "# Counted from Alibaba cluster-trace-gpu-v2023 (openb), published with\n"
    '# "Beware of Fragmentation", USENIX ATC 2023. A row is a shape; count says how many have it.\n'
)

# QoS classes of the trace whose pods are not Guaranteed; those of the others (LS, Guaranteed) are.
_SQUEEZED = frozenset({"BE", "Burstable"})


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What `count` nodes have in common; `model` is empty if there is no GPU."""

    cpu_milli: int
    memory_mib: int
    gpu: int
    model: str
    count: int


@dataclass(frozen=True, slots=True)
class PodShape:
    """What `count` pods request; `gpu_milli` is per GPU, and `burstable` of the pods are not Guaranteed."""

    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    burstable: int
    count: int


def node_shapes() -> list[NodeShape]:
    """Return the bundled table: 27 shapes of 1,523 nodes."""
    return [
        NodeShape(int(cpu), int(memory), int(gpu), model, int(count))
        for cpu, memory, gpu, model, count in _bundled(NODES)
    ]


def pod_shapes() -> list[PodShape]:
    """Return the bundled table: 151 shapes of 8,152 pods."""
    return [PodShape(*map(int, row)) for row in _bundled(PODS)]


def count_nodes(path: Path) -> list[NodeShape]:
    """Count a published list of nodes; raises `BadInput` with every mistake in the file."""
    rows = _published(path, figures=("cpu_milli", "memory_mib", "gpu"), word="model")
    return [
        NodeShape(cpu, memory, gpu, model, count)
        for ((cpu, memory, gpu), model), count in sorted(Counter(rows).items())
    ]


def count_pods(path: Path) -> list[PodShape]:
    """Count a published list of pods; raises `BadInput` with every mistake in the file."""
    rows = _published(path, figures=("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), word="qos")
    squeezed = Counter(figures for figures, qos in rows if qos in _SQUEEZED)
    counts = Counter(figures for figures, _ in rows)
    return [
        PodShape(cpu, memory, gpus, milli, squeezed[cpu, memory, gpus, milli], count)
        for (cpu, memory, gpus, milli), count in sorted(counts.items())
    ]


def write(shapes: Sequence[NodeShape] | Sequence[PodShape], path: Path) -> None:
    """Write a table with its source above it; `shapes` must contain at least one."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(SOURCE)
        table = csv.writer(file, lineterminator="\n")
        table.writerow(field.name for field in fields(shapes[0]))
        table.writerows(map(astuple, shapes))


def _bundled(name: str) -> list[list[str]]:
    text = (DATA / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.reader(lines[1:]))


def _published(path: Path, *, figures: Sequence[str], word: str) -> list[tuple[tuple[int, ...], str]]:
    """Return the figures and the word of each row; the other columns (names, times) are not kept."""
    rows = read_table(path, TableLayout(dict.fromkeys(figures), {word: None}))
    return [(tuple(row.figures[name] for name in figures), row.words[word]) for row in rows]
