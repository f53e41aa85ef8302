"""
Replays of openb: the published policies, which prove the harness.

`make simulate` writes docs/simulate.md with its charts, and docs/simulate.json with all figures, of which the
page is made. By default the trace is the bundled tables of shapes; a folder holds the published lists.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench import command_line, replay_page
from bench.replay_page import Raw
from examples import DATA
from examples.openb import shapes
from numalign.model.errors import BadInput
from numalign.simulation.node_policies import NODE_POLICIES
from numalign.simulation.node_replay import replay_on_nodes
from numalign.simulation.replay import Sample
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document
from numalign.simulation.trace import Trace, read_trace

FIRST_SEED = 42
"""That of the published runs, which count up from it."""

RATIO = 1.3

LISTS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"
"""The files of the published trace."""


def measure(trace: Trace, *, seeds: int) -> Raw:
    """The document of a run."""
    nodes, numbers = trace.with_gpus(), range(FIRST_SEED, FIRST_SEED + seeds)
    return {
        "ratio": RATIO,
        "seeds": [*numbers],
        "trace": {
            "nodes": len(nodes.nodes),
            "gpus": sum(node.gpus for node in nodes.nodes),
            "pods": len(nodes.pods),
        },
        "policies": {
            name: summed_up([[*replay_on_nodes(nodes, name, ratio=RATIO, seed=seed)] for seed in numbers])
            for name in _announced(NODE_POLICIES)
        },
    }


def summed_up(replays: list[list[Sample]]) -> Raw:
    """How replays ended, each of them and on the average, and how they went."""
    last = [samples[-1] for samples in replays]
    return {
        "mean": to_document(mean_of(last)),
        "runs": [to_document(sample) for sample in last],
        "curve": [to_document(sample) for sample in mean_curve(replays)],
    }


def _announced(names: Iterable[str]) -> Iterator[str]:
    """Tells on standard error what is under way."""
    for name in names:
        sys.stderr.write(f"{name} ...\n")
        yield name


def main() -> int:
    """Replay as the flags say; 0, or 2 with the mistakes of a trace on standard error."""
    parser = command_line.parser("bench.replays", __doc__)
    parser.add_argument("--trace", type=Path, metavar="FOLDER", help="the published lists are in here")
    parser.add_argument("--seeds", type=command_line.number, default=10, help="how many (default 10)")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the page here, its charts and figures beside it"
    )
    chosen = parser.parse_args()
    try:
        found = measure(read_trace(*files(chosen.trace)), seeds=chosen.seeds)
    except (BadInput, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print(replay_page.text(found))
    command_line.write(found, chosen.json)
    if chosen.markdown:
        _write(found, chosen.markdown)
    return 0


def files(folder: Path | None) -> tuple[Path, Path]:
    """The nodes and the pods: the published lists in a folder, or the bundled tables."""
    names = LISTS if folder else (shapes.NODES, shapes.PODS)
    nodes, pods = ((folder or DATA) / name for name in names)
    return nodes, pods


def _write(found: Raw, file: Path) -> None:
    file.write_text(replay_page.page(found), encoding="utf-8")
    command_line.write(found, file.with_suffix(".json"))
    for name, chart in replay_page.charts(found).items():
        (file.parent / replay_page.chart_file(name)).write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
