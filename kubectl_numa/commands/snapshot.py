"""`kubectl numa snapshot`: what the rules need to know about a cluster, in one file."""

import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click
import orjson

from kubectl_numa import options
from kubectl_numa.running_cluster import RunningCluster
from numalign.kube.command_line import FILE, from_kubeconfig
from numalign.kube.connection import Connection


@options.command(
    "kubectl numa snapshot -o cluster.json.gz", "kubectl numa snapshot | kubectl numa nodes --snapshot -"
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    type=FILE,
    help="File to write, compressed if its name ends in .gz; defaults to standard output.",
)
@click.option("--with-pods", is_flag=True, help="Include pods: names, labels, annotations and amounts.")
@click.option(
    "--with-kubelet-configs",
    is_flag=True,
    help="Include the configuration of each node's kubelet; requires permission to get nodes/proxy.",
)
@from_kubeconfig
def snapshot(output: str, *, with_pods: bool, with_kubelet_configs: bool, connection: Connection) -> None:
    """Write a snapshot of the cluster to a file, for the other commands to use offline.

    It contains nodes, their topologies and namespaces, reduced to the fields that numalign reads.
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
    """Return a summary of a snapshot in words."""
    counts = Counter(str(item["kind"]) for item in cluster["items"])
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items()) or "nothing"
