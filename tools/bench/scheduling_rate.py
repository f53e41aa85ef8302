"""
Measure how many pods per second the real kube-scheduler binds: with the scorer, an empty extender, or none.

In every cell, the same pods are in the queue before the scheduler starts, on the same nodes. A pod counts as
bound when a watch of the API server shows its node. The cells of a round run one after another on one control
plane, and the next round in reverse order. A ratio compares two cells of one round; the median is shown. The
scheduler may send 1,000 requests per second: with its default limit of 50, it would bind only that many.
"""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from statistics import median

from tools.bench import scheduling_site
from tools.bench.scheduling_site import CELLS, Run
from tools.bench.tables import MET, MISSED, Measurement, one_of, program

LEAST = 0.9
"""The least ratio of pods bound per second to those with the empty extender."""
AIMED = ("numalign-rank", "numalign-bind", "numalign-rank-apart", "numalign-bind-apart")
WARM_UP = "none"
"""A cell that runs before all others and does not count: an API server is slow at first."""

_PROGRAMS = (("kube-scheduler",), ("extender",), ("kube-apiserver", "etcd"))
HEAD = (
    *("", "pods/s", "to empty", "to none"),
    *("scheduler, ms per pod", "extender", "API server, etcd", "target", ""),
)

Runs = dict[str, list[Run]]
"""The rounds of each cell."""


def measure(chosen: Namespace) -> Iterator[Measurement]:
    """Run the cells, round after round."""
    for name in chosen.cells:
        one_of(name, CELLS)
    runs = asyncio.run(_measure(chosen, chosen.cells))
    yield Measurement(
        f"The real kube-scheduler: {chosen.nodes:,} nodes, {chosen.pods} pods, {chosen.repeats} rounds",
        [_row(name, runs) for name in runs],
        "Pods bound per second, starting with a queue of pods, and processor time per pod. The empty extender"
        " is written in Go and answers at once, so its cost is that of the protocol. All programs share the"
        " processors of one machine; in some rows the extender has one of its own, as on a separate host.",
        HEAD,
    )


async def _measure(chosen: Namespace, cells: Sequence[str]) -> Runs:
    runs: Runs = {name: [] for name in cells}
    async with scheduling_site.site(nodes=chosen.nodes, pods=chosen.pods) as site:
        await site.measure(WARM_UP)
        for turn in range(chosen.repeats):
            for name in cells[:: -1 if turn % 2 else 1]:
                runs[name].append(await site.measure(name))
                sys.stderr.write(f"{CELLS[name].title}: {runs[name][-1].rate:.1f} pods/s\n")
    return runs


def _row(name: str, runs: Runs) -> Sequence[float | str | None]:
    cell, mine = CELLS[name], runs[name]
    cpu = (median(sum(run.cpu.get(each, 0) for each in programs) for run in mine) for programs in _PROGRAMS)
    ratio = _ratio(mine, runs.get(cell.empty, []))
    aimed = name in AIMED and ratio is not None
    verdict = ("to empty ≥ 0.9", MET if (ratio or 0) >= LEAST else MISSED) if aimed else ("", "")
    rate = median(run.rate for run in mine)
    return cell.title, rate, ratio, _ratio(mine, runs.get(cell.none, [])), *cpu, *verdict


def _ratio(mine: Sequence[Run], others: Sequence[Run]) -> float | None:
    """Return the median over the rounds of the ratio of two rates; None if the other cell was not run."""
    return median(one.rate / other.rate for one, other in zip(mine, others, strict=True)) if others else None


main = program(
    "scheduling_rate",
    __doc__,
    measure,
    nodes=(1000, 50, "nodes of the cluster"),
    pods=(500, 50, "pods in each cell"),
    repeats=(3, 1, "rounds"),
    cells=(tuple(CELLS), tuple(CELLS), "ways to schedule"),
)

if __name__ == "__main__":
    sys.exit(main(None))
