"""`kubectl numa nodes`: the NUMA map of the cluster."""

import time
from dataclasses import replace

import click

from kubectl_numa import clusters, nodemap, options
from kubectl_numa.clusters import Source
from kubectl_numa.lines import some
from kubectl_numa.options import Output
from kubectl_numa.questions import Cluster
from kubectl_numa.settings import Settings
from numalign.cache import Fleet
from numalign.kube.command_line import Trouble
from numalign.shapes import UnknownNode


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
def nodes(names: tuple[str, ...], source: Source, settings: Settings, output: str) -> None:
    """Draw the zones of every node, or of those that are NAMED: how much of each resource is taken.

    The figures are what is taken of what the kubelet may give out. After the nodes stand the shapes that no
    node is here of: those that are remembered, and those that are declared.
    """
    cluster = _narrowed(clusters.ready(source, settings), names)
    if not cluster.fleet.nodes and not cluster.unknown and not cluster.shapes:
        raise Trouble("there is not a single node in it: neither Nodes nor topologies")
    if output == Output.JSON:
        options.print_json(nodemap.to_json(cluster))
        return
    paper, now = options.paper(), time.time()
    for node in cluster.fleet.nodes:
        nodemap.draw(node, cluster.fleet.class_of(node), paper)
        paper.write("")
    for known in cluster.shapes:
        if not known.nodes:
            nodemap.draw_shape(known, paper, now=now)
            paper.write("")
    if cluster.unknown:
        paper.entry("no topology published by ", some(cluster.unknown, most=8), indent=25)


def _narrowed(cluster: Cluster, names: tuple[str, ...]) -> Cluster:
    if not names:
        return cluster
    known = {node.name: node for node in cluster.fleet.nodes}
    strange = [name for name in names if name not in known and name not in cluster.unknown]
    if strange:
        raise Trouble(f"there is no node {some(strange)}; there are {some(sorted(known), most=8)}")
    kept = [known[name] for name in dict.fromkeys(names) if name in known]
    unknown = tuple(name for name in cluster.unknown if name in names)
    fleet = Fleet(kept, bare={name: UnknownNode(name) for name in unknown})
    return replace(cluster, fleet=fleet, unknown=unknown, shapes=())
