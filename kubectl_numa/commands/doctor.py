"""`kubectl numa doctor`: what is missing for exact predictions, and how to fix it."""

import time
from collections.abc import Sequence

import click

from kubectl_numa import diagnosis, options, typed_names
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.diagnosis import DiagnosedNode, Severity
from kubectl_numa.lines import TextWriter, counted, notify_skipped, some
from kubectl_numa.listings import ListedRow, Listing, Output
from kubectl_numa.traces import traces
from numalign.decision import wording
from numalign.kube import name_completion
from numalign.kube.command_line import Trouble
from numalign.kube.resource_types import NODE
from numalign.kube.selectors import LabelSelector

_STYLES = {Severity.LACK: "red", Severity.NOTE: "yellow"}
_INDENT = 8
_NAMES, _DETAILS = 6, 5


@options.command(
    "kubectl numa doctor",
    "kubectl numa doctor dgx-1 --all",
    "kubectl numa doctor -l pool=gpu -o wide",
    "kubectl numa doctor --snapshot cluster.json.gz",
    "kubectl numa doctor -o json | jq -r '.[] | select(.findings != []).name'",
)
@click.argument("names", nargs=-1, shell_complete=name_completion.nodes)
@options.selector_option
@options.from_cluster
@click.option(
    "--with-pods",
    is_flag=True,
    help="Read pods too, and report those that request alignment on a node without a topology. Pods in a"
    " snapshot are always read.",
)
@click.option("--all", "everything", is_flag=True, help="Do not shorten long lists of nodes.")
@options.listing_option
def doctor(  # noqa: PLR0913 - one keyword for each option
    *,
    names: tuple[str, ...],
    selector: LabelSelector,
    source: ClusterSource,
    with_pods: bool,
    everything: bool,
    output: Output,
) -> None:
    """Find what nodes lack for exact predictions, and how to fix it.

    Checks all nodes, or only the named ones, and groups nodes with the same finding. A `lack` makes
    predictions less exact: a node publishes no topology or only amounts, its agent stopped publishing, its
    clock is wrong, or something cannot be read. A `note` is for information: a kubelet aligns nothing, or has
    a version that numalign was not compared with.

    -o wide and -o name list only nodes with findings. In a snapshot, the age of an agent's report is measured
    from the newest report.

    Exit code 0: nothing is missing, though there may be notes. 1: something is missing. 2: the cluster could
    not be read.
    """
    objects = source.documents(with_pods=with_pods)
    cluster = source.decoded(objects)
    notify_skipped([problem for problem in cluster.problems if not diagnosis.is_of_node(problem)])
    seen = source.seen(cluster, now=time.time())
    every = diagnosis.diagnose(cluster, traces(objects), seen=seen)
    if not every:
        raise Trouble("the cluster has neither Nodes nor topologies")
    labels = cluster.node_labels
    chosen = typed_names.names(names, NODE)
    there = {node.name for node in every}
    if strange := [name for name in chosen if name not in there]:
        raise Trouble(f"no such node: {some(strange)}; the nodes are {some(sorted(there), most=8)}")
    nodes = [
        node
        for node in every
        if (not chosen or node.name in chosen) and selector.matches(labels.get(node.name, {}))
    ]
    listing = Listing(
        columns=("name", "lacks", "notes"),
        wide_columns=("known", "source", "age"),
        rows=[_row(node) for node in nodes if node.found],
        documents=lambda: [node.to_json() for node in nodes],
        text=lambda writer: _show(nodes, writer, everything=everything),
    )
    options.print_listing(listing, output)
    raise click.exceptions.Exit(1 if any(node.lacking for node in nodes) else 0)


def _row(node: DiagnosedNode) -> ListedRow:
    document = node.to_json()
    findings = [
        ",".join(each["finding"] for each in document["findings"] if each["severity"] == severity)
        for severity in (Severity.LACK, Severity.NOTE)
    ]
    age = document["age"]
    cells = (document["known"], document["source"], None if age is None else wording.ago(age))
    return ListedRow(f"node/{node.name}", (node.name, *findings, *cells))


def _show(nodes: Sequence[DiagnosedNode], writer: TextWriter, *, everything: bool) -> None:
    lacking, total = sum(node.lacking for node in nodes), counted(len(nodes))
    summary = f"{total}: nothing is missing for exact predictions"
    if lacking:
        lacks = "lacks" if lacking == 1 else "lack"
        summary = f"{lacking:,} of {total} {lacks} something for exact predictions"
    writer.entry("", summary, indent=0, style="bold")
    for group in diagnosis.groups(nodes):
        writer.write("")
        style, names = _STYLES[group.severity], group.names
        most_names = len(nodes) if everything else _NAMES
        head = f"{group.finding}: {counted(len(names))} ({some(names, most=most_names)})"
        writer.entry(f"  {group.severity}", head, indent=_INDENT, label_style=style, style="bold")
        writer.entry("", f"{group.what}.", indent=_INDENT)
        details = [(detail, of) for detail, of in group.names_by_detail.items() if detail]
        shown = details if everything else details[:_DETAILS]
        lines = [f"{some(of, most=most_names)}: {detail}" for detail, of in shown]
        hidden = len(details) - len(shown)
        for line in [*lines, *([f"and {hidden:,} more (--all shows them)"] if hidden else [])]:
            writer.entry(" " * _INDENT + "* ", line, indent=_INDENT + 2)
        writer.entry("  fix", group.fix, indent=_INDENT, label_style="green")
