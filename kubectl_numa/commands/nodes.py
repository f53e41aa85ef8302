"""`kubectl numa nodes`: the NUMA map of the cluster."""

import time

import click

from kubectl_numa import nodemap, options
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import some
from kubectl_numa.listings import Output
from kubectl_numa.questions import WebhookOptions
from numalign.kube.cluster_state import Snapshot
from numalign.kube.command_line import Trouble


@click.command(
    epilog="""\b
Examples:
  kubectl numa nodes
  kubectl numa nodes dgx-1 dgx-2 --snapshot cluster.json.gz
  kubectl numa nodes -o json | jq '.[] | {name, class}'
"""
)
@click.argument("names", nargs=-1)
@options.from_cluster
@options.of_shapes
@options.output_option
def nodes(names: tuple[str, ...], source: ClusterSource, webhook: WebhookOptions, output: str) -> None:
    """Draw the zones of every node, or of those that are NAMED: how much of each resource is taken.

    The figures are what is taken of what the kubelet may give out. Beside the name stands how much is known
    of a node, who tells that, and when its agent last did; `doctor` says what is missing. After the nodes
    stand the shapes that no node is here of: those that are remembered, and those that are declared.
    """
    cluster = source.view(webhook)
    snapshot = _narrowed(cluster.snapshot, names)
    if not snapshot.nodes and not snapshot.unknown and not snapshot.shapes:
        raise Trouble("there is not a single node in it: neither Nodes nor topologies")
    if output == Output.JSON:
        options.print_json(nodemap.to_json(snapshot, cluster.exporter))
        return
    paper, now = options.paper(), time.time()
    for node in snapshot.nodes:
        nodemap.draw(node, paper, cluster.exporter(node))
        paper.write("")
    for shape in snapshot.shapes:
        if not shape.nodes:
            nodemap.draw_shape(shape, paper, now=now)
            paper.write("")
    if snapshot.unknown:
        paper.entry("no topology published by ", some(snapshot.unknown, most=8), indent=25)


def _narrowed(snapshot: Snapshot, names: tuple[str, ...]) -> Snapshot:
    """The nodes that are named, in the order of their names on the command line, by default all."""
    if not names:
        return snapshot
    published = {node.name: node for node in snapshot.nodes}
    strange = [name for name in names if name not in published and name not in snapshot.unknown]
    if strange:
        raise Trouble(f"there is no node {some(strange)}; there are {some(sorted(published), most=8)}")
    return Snapshot(
        tuple(published[name] for name in dict.fromkeys(names) if name in published),
        tuple(name for name in snapshot.unknown if name in names),
    )
