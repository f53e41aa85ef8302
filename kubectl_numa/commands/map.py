"""`kubectl numa map`: the zones of the cluster in a browser, or in a file."""

import asyncio
import sys
import webbrowser
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

import click

from kubectl_numa import moving, options
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.lines import notify, notify_skipped
from kubectl_numa.questions import WebhookOptions
from kubectl_numa.serving_map import LocalMap
from numalign.kube.command_line import FILE, Trouble, joined
from numalign.map import fleet_query, standalone
from numalign.map.state import MapState
from numalign.map.views import Condition, Fleet, FleetQuery, NodeView
from numalign.model.intent import Policy
from numalign.runtime import logs, server

STDOUT = "-"
HTML, SVG = ".html", ".svg"


def _filters(
    *, labels: str, node_class: str, topology_policy: str | None, resource: str, only: Sequence[str]
) -> FleetQuery:
    single = {"labels": labels, "class": node_class, "policy": topology_policy or "", "resource": resource}
    return fleet_query.parse([*single.items(), *(("only", condition) for condition in only)])


_of_nodes = joined(
    "query",
    _filters,
    click.option(
        "-l",
        "--selector",
        "labels",
        metavar="SELECTOR",
        default="",
        help="Label selector of the nodes to show.",
    ),
    click.option("--class", "node_class", metavar="NAME", default="", help="Show only nodes of this class."),
    click.option(
        "--topology-policy",
        type=click.Choice([policy.value for policy in Policy]),
        help="Show only nodes whose kubelet has this policy.",
    ),
    click.option(
        "--resource", metavar="NAME", default="", help="Resource that zones are coloured by; cpu by default."
    ),
    click.option(
        "--only",
        type=click.Choice([condition.value for condition in Condition]),
        multiple=True,
        help="Show only nodes in this condition; repeat it to show nodes in any of several.",
    ),
)


@options.command(
    "kubectl numa map --serve --open",
    "kubectl numa map --serve --snapshot cluster.json.gz --only misaligned",
    "kubectl numa map -o map.html",
    "kubectl numa map -o map.svg --class 2s-4z-32c -l pool=gpu",
)
@click.option("--serve", is_flag=True, help="Serve the map to this machine, and follow changes.")
@options.port_option(8081)
@click.option("--open", "opens", is_flag=True, help="With --serve, open the map in a browser.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Write the map to a file that needs no server: .html contains pages of the fleet and its nodes, .svg"
    " is a drawing of the fleet. - writes HTML to standard output.",
)
@_of_nodes
@options.from_cluster
@options.as_the_webhook
def map(  # noqa: A001, PLR0913  the name of the command; its options
    *,
    serve: bool,
    port: int,
    opens: bool,
    output: str | None,
    query: FleetQuery,
    source: ClusterSource,
    webhook: WebhookOptions,
) -> None:
    """Draw the zones of all nodes: how full they are, what is wrong, who holds what, and what would fit.

    With --serve the map follows the running cluster, or reloads the snapshot file when it changes. It is
    served to this machine only, and shows everything that you can read in the cluster.
    """
    if serve == (output is not None):
        raise Trouble("use either --serve, to open the map in a browser, or -o FILE, to write it to a file")
    if serve:
        raise click.exceptions.Exit(_serve(source, webhook, query, port=port, opens=opens))
    file = str(output)
    suffix = HTML if file == STDOUT else Path(file).suffix.lower()
    if suffix not in {HTML, SVG}:
        raise Trouble(f"-o {file}: use a file name that ends in {HTML} or {SVG}, or - for standard output")
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
    notify_skipped(placed.problems)
    fleet, nodes = asyncio.run(_built(MapState(placed.state), query))
    if len(nodes) == standalone.MOST_NODES < fleet.count_shown:
        notify(f"the file has pages of {len(nodes)} of {fleet.count_shown:,} nodes: use -l or --class")
    drawn = standalone.fleet_svg(fleet, query) if suffix == SVG else standalone.export(fleet, query, nodes)
    if file == STDOUT:
        for chunk in drawn:
            click.echo(chunk.encode(errors="replace"), nl=False)
    else:
        with Path(file).open("w", encoding="utf-8", errors="replace") as written:
            written.writelines(drawn)


def _serve(
    source: ClusterSource, webhook: WebhookOptions, query: FleetQuery, *, port: int, opens: bool
) -> int:
    if source.snapshot == STDOUT:
        raise Trouble("--serve reloads the snapshot when it changes: specify a file, not standard input")

    def opened(url: str) -> None:
        notify(f"The map is at {url}; press Ctrl-C to stop.")
        if opens and not webbrowser.open(url):
            notify("Could not open a browser: open this address yourself.")

    path = f"/?{urlencode(query.pairs())}" if query.pairs() else "/"
    log = logs.to(sys.stderr, level="warning", form="text")
    served = LocalMap(source, source.policy(webhook.policy), webhook.match, port, path, opened, log)
    return server.run(served.serve, log=log)


async def _built(map_state: MapState, query: FleetQuery) -> tuple[Fleet, Sequence[NodeView]]:
    fleet = await map_state.fleet(query)
    tiles = islice((tile for group in fleet.groups for tile in group.tiles), standalone.MOST_NODES)
    nodes = [await map_state.node(tile.name, lambda _namespace: True) for tile in tiles]
    return fleet, [node for node in nodes if node]
