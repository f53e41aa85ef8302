"""
A trace: its nodes, and what its pods request.

Read from two tables with the columns of Alibaba's cluster-trace-gpu-v2023 ("openb"), or from tables of
shapes, in which a row stands for `count` nodes or pods. The times of pods are not read: a replay shuffles
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TypeVar

from numalign.model.errors import BadInput, Mistake
from numalign.model.resources import MILLI
from numalign.simulation.tables import TableLayout, TableRow, read_table

WHOLE_GPU = 1000
"""Thousandths of one GPU."""

MIB = 2**20

MOST_GPUS = 32
"""Most GPUs of one node, or of one pod."""

MOST_NODES = 20_000
MOST_PODS = 200_000

BURSTABLE = frozenset({"BE", "Burstable"})
"""QoS classes in openb whose pods are not Guaranteed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TraceNode:
    """Millicores, bytes of memory, and whole GPUs of a model, which is empty if it is not given."""

    cpu: int
    memory: int
    gpus: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class TracePod:
    """The requests of a pod: millicores, bytes, and `share` thousandths of each of `gpus` GPUs.

    A pod requests either whole GPUs or a share of a single one. `models` are those that it accepts, empty for
    all. CPUs and memory are only pinned for a `guaranteed` pod.
    """

    cpu: int
    memory: int
    gpus: int = 0
    share: int = 0
    models: frozenset[str] = frozenset()
    guaranteed: bool = True

    @property
    def gpu_milli(self) -> int:
        """Thousandths of all its GPUs together."""
        return self.gpus * self.share

    @property
    def shares(self) -> bool:
        """Whether it leaves the rest of its GPU to other pods."""
        return 0 < self.share < WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Trace:
    """All nodes and all pods."""

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]

    def pinned(self) -> "Trace":
        """Return the trace with all pods Guaranteed and CPUs rounded up: others get no exclusive CPUs."""
        pinned = {
            pod: replace(pod, cpu=-(-pod.cpu // MILLI) * MILLI, guaranteed=True) for pod in {*self.pods}
        }
        return Trace(self.nodes, [pinned[pod] for pod in self.pods])

    def with_gpus(self) -> "Trace":
        """Return the trace without nodes that have no GPU."""
        return Trace([node for node in self.nodes if node.gpus], self.pods)


_NODES = TableLayout({"cpu_milli": None, "memory_mib": None, "gpu": None, "count": 1}, {"model": ""})
_PODS = TableLayout(
    {"cpu_milli": None, "memory_mib": None, "num_gpu": None, "gpu_milli": None, "burstable": 0, "count": 1},
    {"gpu_spec": "", "qos": ""},
)


def read_trace(nodes: Path, pods: Path) -> Trace:
    """Read both tables; raises `BadInput` with every mistake in either, `OSError` if one cannot be opened."""
    mistakes: list[Mistake] = []
    trace = Trace(
        _collected(mistakes, lambda: read_nodes(nodes)), _collected(mistakes, lambda: read_pods(pods))
    )
    if mistakes:
        raise BadInput(mistakes)
    return trace


def _collected(mistakes: list[Mistake], read: Callable[[], Sequence[T]]) -> Sequence[T]:
    try:
        return read()
    except BadInput as error:
        mistakes += error.mistakes
        return ()


def read_nodes(path: Path) -> list[TraceNode]:
    """Return the nodes of a table; raises as `read_trace`."""
    rows, nodes = read_table(path, _NODES), list[TraceNode]()
    wrong = [
        Mistake(row.where, f"gpu is {row.figures['gpu']}: the maximum is {MOST_GPUS}")
        for row in rows
        if row.figures["gpu"] > MOST_GPUS
    ]
    _check(path, rows, wrong, MOST_NODES)
    for _, figures, words in rows:
        cpu, memory, model = figures["cpu_milli"], figures["memory_mib"] * MIB, words["model"].strip()
        nodes += repeat(TraceNode(cpu, memory, figures["gpu"], model), figures["count"])
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """Return the pods of a table; raises as `read_trace`."""
    rows, pods = read_table(path, _PODS), list[TracePod]()
    _check(path, rows, [mistake for row in rows for mistake in _mistakes_of_pod(row)], MOST_PODS)
    for _, figures, words in rows:
        guaranteed = TracePod(
            figures["cpu_milli"],
            figures["memory_mib"] * MIB,
            figures["num_gpu"],
            figures["gpu_milli"] if figures["num_gpu"] else 0,
            frozenset(filter(None, map(str.strip, words["gpu_spec"].split("|")))),
        )
        burstable = figures["count"] if words["qos"] in BURSTABLE else figures["burstable"]
        pods += repeat(guaranteed, figures["count"] - burstable)
        pods += repeat(replace(guaranteed, guaranteed=False), burstable)
    return pods


def _check(path: Path, rows: Sequence[TableRow], mistakes: list[Mistake], most: int) -> None:
    if sum(row.figures["count"] for row in rows) > most:
        mistakes.append(Mistake(str(path), f"more than {most:,} in all: a smaller trace is needed"))
    if mistakes:
        raise BadInput(mistakes)


def _mistakes_of_pod(row: TableRow) -> Iterator[Mistake]:
    gpus, share = row.figures["num_gpu"], row.figures["gpu_milli"]
    if gpus > MOST_GPUS:
        yield Mistake(row.where, f"num_gpu is {gpus}: the maximum is {MOST_GPUS}")
    if gpus == 1 and not 0 < share <= WHOLE_GPU:
        yield Mistake(row.where, f"gpu_milli is {share}: with one GPU it is 1 to {WHOLE_GPU}")
    if gpus > 1 and share != WHOLE_GPU:
        yield Mistake(row.where, f"gpu_milli is {share}: with several GPUs it is {WHOLE_GPU}")
    if row.figures["burstable"] > row.figures["count"]:
        yield Mistake(row.where, f"burstable is {row.figures['burstable']}: more than there are pods")
