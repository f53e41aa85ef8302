"""
The memory that a node takes, measured in a process that does nothing else.

What counts is the growth of the process as the kernel sees it, so it includes what Python keeps of finished
work. `python -m tools.bench.growth NODES ZONES` prints the KiB per node as JSON: those of the values that
describe it, and those of a cache that has the nodes and has answered a question with scores.
"""

import os
import subprocess
import sys
from pathlib import Path

import orjson

from numalign.cache import ClusterCache
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Policy
from tools.bench.fleets import Case, Raw

_KIB = 1024


def measure(nodes: int, zones: int) -> Raw:
    """Return the figures of so many nodes, measured in a process of its own."""
    words = [sys.executable, "-m", "tools.bench.growth", str(nodes), str(zones)]
    found = subprocess.run(words, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own program
    return {"nodes": nodes, "zones": zones, **orjson.loads(found.stdout)}


def main() -> int:
    """Print the growth as JSON."""
    nodes, zones = map(int, sys.argv[1:])
    sys.stdout.buffer.write(orjson.dumps(grow(Case.alike(nodes, zones, Policy.RESTRICTED))))
    return 0


def grow(case: Case) -> Raw:
    """Return the growth of this process in KiB per node, by the nodes and then by the cache that has them."""
    empty = _resident_bytes()
    nodes = case.members()
    with_nodes = _resident_bytes()
    cluster = ClusterCache()
    for node in nodes:
        cluster.nodes.put(node)
    cluster.ask([], case.question(0)).evaluation.scores(Strategy.LEAST_NUMA_NODES, EVEN)
    with_cache = _resident_bytes()
    return {
        "nodes_kib": round((with_nodes - empty) / len(nodes) / _KIB, 2),
        "cache_kib": round((with_cache - with_nodes) / len(nodes) / _KIB, 2),
    }


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
