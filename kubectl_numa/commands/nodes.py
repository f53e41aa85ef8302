"""`kubectl numa nodes`: the NUMA map of the cluster."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import click

from kubectl_numa import moving, nodegroups, nodemap, options, typed_names
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter, some
from kubectl_numa.listings import ListedRow, Listing, Output
from kubectl_numa.moving import PlacedPods
from kubectl_numa.nodegroups import SeenNode
from kubectl_numa.nodemap import ListedNodes
from kubectl_numa.notices import notify, waiting
from kubectl_numa.questions import ClusterView, WebhookOptions
from numalign.kube import name_completion
from numalign.kube.command_line import Trouble
from numalign.kube.resource_types import NODE
from numalign.kube.selectors import EVERYTHING, LabelSelector
from numalign.model.node import Node
from numalign.scheduling.pod_alignments import pod_alignments

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@click.command(
    epilog="""\b
Examples:
  kubectl numa nodes
  kubectl numa nodes dgx-1 node/dgx-2
  kubectl numa nodes -l topology.kubernetes.io/zone=a -o wide
  kubectl numa nodes --all --snapshot cluster.json.gz
  kubectl numa nodes -o json | jq '.[] | {name, class}'
"""
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
    named = _named(present, typed_names.names(names, NODE))
    listed = _selected(named, selector, view.cluster.node_labels)
    if not listed.nodes and not listed.unknown and selector != EVERYTHING:
        notify(f"no node matches the label selector {selector}")
    seen = _seen(view, listed.nodes, _misaligned(placed, listed.nodes) if with_pods else None)
    listing = Listing(
        columns=nodegroups.COLUMNS,
        wide_columns=nodegroups.WIDE_COLUMNS,
        rows=_rows(seen, listed.unknown),
        documents=lambda: nodemap.to_json(listed, view.exporter),
        text=lambda writer: _draw(seen, listed, writer, one_by_one=everything or bool(names)),
    )
    options.print_listing(listing, output)


def _named(present: ListedNodes, names: Sequence[str]) -> ListedNodes:
    """Return the named nodes, in the order of the command line, by default all."""
    if not names:
        return present
    published = {node.name: node for node in present.nodes}
    strange = [name for name in names if name not in published and name not in present.unknown]
    if strange:
        raise Trouble(f"no such node: {some(strange)}; the nodes are {some(sorted(published), most=8)}")
    return ListedNodes(
        [published[name] for name in dict.fromkeys(names) if name in published],
        [name for name in present.unknown if name in names],
    )


def _selected(
    listed: ListedNodes, selector: LabelSelector, labels: Mapping[str, Mapping[str, str]]
) -> ListedNodes:
    """Return the nodes with these labels, without shapes, which have no labels of a node."""
    if selector == EVERYTHING:
        return listed
    return ListedNodes(
        [node for node in listed.nodes if selector.matches(labels.get(node.name, _NO_LABELS))],
        [name for name in listed.unknown if selector.matches(labels.get(name, _NO_LABELS))],
    )


def _misaligned(placed: PlacedPods, nodes: Iterable[Node]) -> Counter[str]:
    """Return how many pods of each node are misaligned."""
    return Counter(
        {
            node.name: sum(each.alignment.misaligned for each in pod_alignments(placed.state, node.name))
            for node in nodes
        }
    )


def _seen(view: ClusterView, nodes: Iterable[Node], misaligned: Counter[str] | None) -> list[SeenNode]:
    return [
        SeenNode(node, view.exporter(node), None if misaligned is None else misaligned[node.name])
        for node in nodes
    ]


def _rows(seen: Iterable[SeenNode], unknown: Iterable[str]) -> Iterable[ListedRow]:
    yield from map(nodegroups.row, seen)
    yield from map(nodegroups.hidden_row, unknown)


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
