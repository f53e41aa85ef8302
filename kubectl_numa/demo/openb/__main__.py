"""
Count the published trace again, to check the bundled tables.

    python -m kubectl_numa.demo.openb NODES.csv PODS.csv DIR

reads `openb_node_list_all_node.csv` and `openb_pod_list_default.csv` and writes both tables into DIR.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kubectl_numa.demo.openb import shapes
from numalign.model.errors import BadInput


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both tables; return 0, or 2 with the mistakes on standard error."""
    parser = argparse.ArgumentParser(prog="python -m kubectl_numa.demo.openb")
    parser.add_argument("nodes", type=Path, help="the published list of nodes")
    parser.add_argument("pods", type=Path, help="the published list of pods")
    parser.add_argument("directory", type=Path, help="folder to write the two tables to")
    given = parser.parse_args(arguments)
    try:
        nodes, pods = shapes.count_nodes(given.nodes), shapes.count_pods(given.pods)
        shapes.write(nodes, given.directory / shapes.NODES)
        shapes.write(pods, given.directory / shapes.PODS)
    except (BadInput, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
