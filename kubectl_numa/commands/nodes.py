"""`kubectl numa nodes`: the NUMA map of the cluster."""

import time
from collections.abc import Mapping, Sequence
from itertools import chain

import click

from kubectl_numa import moving, nodegroups, nodemap, options, typed_names
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter, notify, some, waiting
from kubectl_numa.listings import Listing, Output
from kubectl_numa.nodegroups import SeenNode
from kubectl_numa.nodemap import ListedNodes
from kubectl_numa.questions import WebhookOptions
from numalign.kube import name_completion
from numalign.kube.command_line import Trouble
from numalign.kube.resource_types import NODE
from numalign.kube.selectors import EVERYTHING, LabelSelector
from numalign.scheduling.pod_alignments import pod_alignments


@options.command(
    "kubectl numa nodes",
    "kubectl numa nodes dgx-1 node/dgx-2",
    "kubectl numa nodes -l topology.kubernetes.io/zone=a -o wide",
    "kubectl numa nodes --all --snapshot cluster.json.gz",
    "kubectl numa nodes -o json | jq '.[] | {name, class}'",
)
@click.argument("names", nargs=-1, metavar="[NAME|node/NAME]...", shell_complete=name_completion.nodes)
@options.selector_option
@options.from_cluster
@options.of_shapes
@click.option("--all", "everything", is_flag=True, help="Draw each node instead of each class.")
@click.option(
    "--with-pods",
    is_flag=True,
    help="Read the pods of a running cluster too: count those that nodes do not report yet, and report nodes"
    " with misaligned pods.",
)
@options.listing_option
def nodes(  # noqa: PLR0913 - one keyword for each option
    names: tuple[str, ...],
    *,
    selector: LabelSelector,
    source: ClusterSource,
    webhook: WebhookOptions,
    everything: bool,
    with_pods: bool,
    output: Output,
) -> None:
    """Draw the zones of nodes, and how much of each resource is allocated.

    Nodes are summed up by class: nodes of one class have the same zones and the same kubelet configuration.
    For each class, the output counts the nodes that are idle (nothing is allocated), partly used, or full (a
    resource is exhausted in all zones), and the nodes with problems. Named nodes are drawn one by one, as are
    all nodes with --all; -o wide prints one line per node.

    Figures are allocated/allocatable. The heading of a node shows how much is known about it, where that
    comes from, and the age of its agent's report; `doctor` lists what is missing. Node shapes without nodes,
    remembered or declared, follow the nodes.
    """
    objects = source.documents(with_pods=with_pods)
    view = source.view(webhook, objects=objects)
    if not view.cluster.states and not view.cluster.shapes:
        raise Trouble("the cluster has neither Nodes nor topologies")
    with waiting("reading the pods"):
        placed = moving.placed_pods(
            view, objects, match=webhook.match, complete=with_pods and source.snapshot is None
        )
    present = ListedNodes(placed.nodes, view.cluster.unknown, view.cluster.known_shapes)
    listed = _listed(present, typed_names.names(names, NODE), selector, view.cluster.node_labels)
    if not listed.nodes and not listed.unknown and selector != EVERYTHING:
        notify(f"no node matches the label selector {selector}")
    seen = []
    for node in listed.nodes:
        pods = pod_alignments(placed.state, node.name) if with_pods else ()
        misaligned = sum(each.alignment.misaligned for each in pods) if with_pods else None
        seen.append(SeenNode(node, view.exporter(node), misaligned))
    listing = Listing(
        columns=nodegroups.COLUMNS,
        wide_columns=nodegroups.WIDE_COLUMNS,
        rows=chain(map(nodegroups.row, seen), map(nodegroups.hidden_row, listed.unknown)),
        documents=lambda: nodemap.to_json(listed, view.exporter),
        text=lambda writer: _draw(seen, listed, writer, one_by_one=everything or bool(names)),
    )
    options.print_listing(listing, output)


def _listed(
    present: ListedNodes,
    names: Sequence[str],
    selector: LabelSelector,
    labels: Mapping[str, Mapping[str, str]],
) -> ListedNodes:
    """Return the named nodes, in the order of the command line, by default all, that have these labels."""
    nodes, unknown, shapes = present.nodes, present.unknown, present.shapes
    if names:
        published = {node.name: node for node in nodes}
        if strange := [name for name in names if name not in published and name not in unknown]:
            raise Trouble(f"no such node: {some(strange)}; the nodes are {some(sorted(published), most=8)}")
        nodes = [published[name] for name in dict.fromkeys(names) if name in published]
        unknown, shapes = [name for name in unknown if name in names], ()
    if selector != EVERYTHING:
        # Shapes have no labels of a node.
        nodes = [node for node in nodes if selector.matches(labels.get(node.name, {}))]
        unknown = [name for name in unknown if selector.matches(labels.get(name, {}))]
        shapes = ()
    return ListedNodes(nodes, unknown, shapes)


def _draw(seen: Sequence[SeenNode], listed: ListedNodes, writer: TextWriter, *, one_by_one: bool) -> None:
    now = time.time()
    if one_by_one:
        for each in seen:
            nodemap.draw(each.node, writer, each.health)
            writer.write("")
    elif seen:
        classes = nodegroups.by_class(seen)
        for each_class in classes:
            nodegroups.draw_class(each_class, writer)
            writer.write("")
        writer.entry("", nodegroups.summary(seen, classes), indent=0)
    for shape in listed.shapes:
        if not shape.nodes:
            nodemap.draw_shape(shape, writer, now=now)
            writer.write("")
    if listed.unknown:
        writer.entry("no topology published by ", some(listed.unknown, most=8), indent=25)
