"""`kubectl numa shapes`: the kinds of nodes that a cluster has, had, and may get."""

import time
from pathlib import Path

import click
import yaml

from kubectl_numa import explanation, nodemap, options
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import TextWriter
from kubectl_numa.listings import ListedRow, Listing, Output
from kubectl_numa.questions import WebhookOptions
from numalign.kube.command_line import FILE, CommandGroup
from numalign.kube.decode import shapes as codec
from numalign.shapes import KnownShape

STDOUT = "-"


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    # Versions of click differ in what they write here.
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog="""\b
Examples:
  kubectl numa shapes
  kubectl numa shapes -o wide
  kubectl numa shapes --snapshot cluster.json.gz -o json
  kubectl numa shapes export -o shapes.yaml
""",
)
@options.from_cluster
@options.of_shapes
@options.listing_option
@click.pass_context
def shapes(context: click.Context, *, source: ClusterSource, webhook: WebhookOptions, output: Output) -> None:
    """List the shapes of nodes: present, remembered and declared.

    A shape is what nodes of one class with the same taints have in common. The webhook denies a pod as one
    that no node could ever run only if no healthy node of any shape could take it, empty or in use.
    """
    if context.invoked_subcommand:
        return
    listed = source.view(webhook).cluster.known_shapes

    def row(known: KnownShape) -> ListedRow:
        shape, provenance = known.shape, explanation.provenance(known)
        facts = (shape.name, provenance["known"], known.nodes, len(shape.node.zones))
        more = (provenance["lastSeen"], ",".join(map(str, shape.taints)), shape.node_class)
        return ListedRow(f"shape/{shape.name}", (*facts, shape.node.policy, shape.node.scope, *more))

    def draw(writer: TextWriter) -> None:
        now = time.time()
        for shape in listed:
            nodemap.draw_shape(shape, writer, now=now)
            writer.write("")

    listing = Listing(
        columns=("name", "known", "nodes", "zones", "policy", "scope"),
        wide_columns=("last seen", "taints", "class"),
        rows=map(row, listed),
        documents=lambda: [nodemap.shape_to_json(shape) for shape in listed],
        text=draw,
    )
    options.print_listing(listing, output)


@shapes.command(
    epilog="""\b
Examples:
  kubectl numa shapes export >> policy.yaml
  kubectl numa shapes export --snapshot cluster.json.gz -o shapes.yaml
"""
)
@click.option(
    "-o",
    "--output",
    default=STDOUT,
    metavar="FILE",
    type=FILE,
    help="File to write; defaults to standard output.",
)
@options.from_cluster
@options.of_shapes
def export(output: str, *, source: ClusterSource, webhook: WebhookOptions) -> None:
    """Write the shapes as the `shapes` section of a policy file.

    A node pool that is scaled to zero then stays known for as long as the file declares its shape.
    """
    listed = source.view(webhook).cluster.known_shapes
    text = yaml.safe_dump({"shapes": codec.exported(listed)}, sort_keys=False)
    if output == STDOUT:
        click.echo(text, nl=False)
        return
    Path(output).write_text(text)
    click.echo(f"{output}: {len(listed)} shapes", err=True)
