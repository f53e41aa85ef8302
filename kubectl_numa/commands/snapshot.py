"""`kubectl numa snapshot`: what the rules need of a running cluster, in one file."""

import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click
import orjson

from kubectl_numa.running_cluster import RunningCluster
from numalign.kube.command_line import FILE, from_kubeconfig
from numalign.kube.connection import Connection


@click.command(
    epilog="""\b
Examples:
  kubectl numa snapshot -o cluster.json.gz
  kubectl numa snapshot | kubectl numa nodes --snapshot -
"""
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    type=FILE,
    help="Where it goes, packed if the name ends in .gz; by default standard output.",
)
@click.option("--with-pods", is_flag=True, help="Pods too: their names, labels, annotations and amounts.")
@click.option(
    "--with-kubelet-configs",
    is_flag=True,
    help="The configuration of each node's kubelet too, which takes the right to get nodes/proxy.",
)
@from_kubeconfig
def snapshot(output: str, *, with_pods: bool, with_kubelet_configs: bool, connection: Connection) -> None:
    """Write a snapshot of the cluster into a file, so that all else works offline.

    Nodes, their topologies and namespaces, without what no rule reads: it may be sent around.
    """
    cluster = RunningCluster(connection).collect(
        with_pods=with_pods, with_kubelet_configs=with_kubelet_configs
    )
    data = orjson.dumps(cluster, option=orjson.OPT_APPEND_NEWLINE)
    if output == "-":
        sys.stdout.buffer.write(data)
        return
    Path(output).write_bytes(gzip.compress(data, mtime=0) if output.endswith(".gz") else data)
    click.echo(f"{output}: {contents(cluster)}", err=True)


def contents(cluster: dict[str, Any]) -> str:
    """What a snapshot holds, in words."""
    counts = Counter(str(item["kind"]) for item in cluster["items"])
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "nothing"
