"""`kubectl numa map`: the zones of the cluster in a browser, or in a file."""

import asyncio
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

import click

from kubectl_numa import moving, options
from kubectl_numa.clusters import ClusterSource
from kubectl_numa.notices import tell, tell_left_out
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

_DEFAULT_PORT = 8081


def _filters(
    *, labels: str, node_class: str, topology_policy: str | None, resource: str, only: Sequence[str]
) -> FleetQuery:
    """Which nodes are shown; raises `BadInput`."""
    single = {"labels": labels, "class": node_class, "policy": topology_policy or "", "resource": resource}
    return fleet_query.parse([*single.items(), *(("only", condition) for condition in only)])


_of_nodes = joined(
    "query",
    _filters,
    click.option(
        "-l", "--selector", "labels", metavar="SELECTOR", default="", help="Only nodes with these labels."
    ),
    click.option("--class", "node_class", metavar="NAME", default="", help="Only nodes of this class."),
    click.option(
        "--topology-policy",
        type=click.Choice([policy.value for policy in Policy]),
        help="Only nodes whose kubelet has this policy.",
    ),
    click.option(
        "--resource", metavar="NAME", default="", help="Colour zones by this resource; by default by cpu."
    ),
    click.option(
        "--only",
        type=click.Choice([condition.value for condition in Condition]),
        multiple=True,
        help="Only nodes in this condition; several times, in any of these.",
    ),
)


@click.command(
    epilog="""\b
Examples:
  kubectl numa map --serve --open
  kubectl numa map --serve --snapshot cluster.json.gz --only misaligned
  kubectl numa map -o map.html
  kubectl numa map -o map.svg --class 2s-4z-32c -l pool=gpu
"""
)
@click.option("--serve", is_flag=True, help="Serve it to a browser on this machine, and follow what changes.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_DEFAULT_PORT,
    show_default=True,
    help="Where --serve listens, on 127.0.0.1; 0 takes any free one.",
)
@click.option("--open", "opens", is_flag=True, help="With --serve, open it in a browser.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Write it into a file that needs no server: .html has pages of the fleet and its nodes, .svg is a"
    " drawing of the fleet. - is standard output, in HTML.",
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
    """Draw the zones of all nodes: where they are full, what is wrong, who holds what, and what would fit.

    With --serve it follows a running cluster, and a snapshot file is read again when it changes. Nobody but
    this machine reaches it, and it shows all that you may see.
    """
    if serve == (output is not None):
        raise Trouble("say either --serve, to look at it in a browser, or -o FILE, to write it into a file")
    if serve:
        raise click.exceptions.Exit(_serve(source, webhook, query, port=port, opens=opens))
    write = _writer(str(output))
    fleet, nodes = _views(source, webhook, query)
    _write(str(output), write(fleet, query, nodes))


def _serve(
    source: ClusterSource, webhook: WebhookOptions, query: FleetQuery, *, port: int, opens: bool
) -> int:
    if source.snapshot == STDOUT:
        raise Trouble("--serve reads the snapshot again when it changes: name a file in place of -")

    def opened(url: str) -> None:
        tell(f"The map is at {url}; Ctrl-C ends it.")
        if opens and not webbrowser.open(url):
            tell("No browser could be opened: open that address yourself.")

    path = f"/?{urlencode(query.pairs())}" if query.pairs() else "/"
    log = logs.to(sys.stderr, level="warning", form="text")
    served = LocalMap(source, source.policy(webhook.policy), webhook.match, port, path, opened, log)
    return server.run(served.serve, log=log)


WriteMap = Callable[[Fleet, FleetQuery, Sequence[NodeView]], Iterator[str]]

_WRITERS: Mapping[str, WriteMap] = MappingProxyType(
    {HTML: standalone.export, SVG: lambda fleet, query, _nodes: standalone.fleet_svg(fleet, query)}
)


def _writer(output: str) -> WriteMap:
    """What writes such a file; raises `Trouble`."""
    suffix = HTML if output == STDOUT else Path(output).suffix.lower()
    if suffix not in _WRITERS:
        raise Trouble(f"-o {output}: name a file that ends in {HTML} or {SVG}, or - for standard output")
    return _WRITERS[suffix]


def _views(
    source: ClusterSource, webhook: WebhookOptions, query: FleetQuery
) -> tuple[Fleet, Sequence[NodeView]]:
    """The fleet, and the nodes of which a file has pages."""
    objects = source.documents(with_pods=True)
    view = source.view(webhook, objects=objects)
    placed = moving.placed_pods(view, objects, match=webhook.match, complete=source.snapshot is None)
    tell_left_out(placed.problems)
    fleet, nodes = asyncio.run(_built(MapState(placed.state), query))
    if len(nodes) == standalone.MOST_NODES < fleet.count_shown:
        tell(
            f"pages of {len(nodes)} of {fleet.count_shown:,} nodes are in it: choose fewer with -l or --class"
        )
    return fleet, nodes


async def _built(map_state: MapState, query: FleetQuery) -> tuple[Fleet, Sequence[NodeView]]:
    fleet = await map_state.fleet(query)
    tiles = islice((tile for group in fleet.groups for tile in group.tiles), standalone.MOST_NODES)
    nodes = [await map_state.node(tile.name, lambda _namespace: True) for tile in tiles]
    return fleet, [node for node in nodes if node]


def _write(output: str, chunks: Iterator[str]) -> None:
    """Write a file; raises `OSError`."""
    if output == STDOUT:
        for chunk in chunks:
            click.echo(chunk.encode(errors="replace"), nl=False)
        return
    with Path(output).open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(chunks)
