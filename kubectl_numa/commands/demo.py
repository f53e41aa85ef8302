"""`kubectl numa demo`: everything on a bundled cluster."""

import asyncio

import click

from examples.demo import story
from examples.demo.signals import Stopped, stoppable
from kubectl_numa import options


@click.command(
    epilog="""\b
Examples:
  kubectl numa demo
  kubectl numa demo --serve --port 9443
"""
)
@click.option("--serve", is_flag=True, help="Only keep the webhook running, and print lines to try.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8443,
    show_default=True,
    help="Where --serve listens, on 127.0.0.1; 0 takes any free one.",
)
def demo(*, serve: bool, port: int) -> None:
    """Start the webhook on a bundled cluster, and show how it answers for bundled pods.

    Part one is small enough to check by hand, part two are the nodes and pods of a real GPU cluster. The last
    line sums up both. The exit code is 0 if every bundled pod came out as the file says, otherwise 1.
    """
    paper = options.paper()
    try:
        if serve:
            asyncio.run(stoppable(story.serve(paper, port=port)))
        differing = asyncio.run(stoppable(story.play(paper)))
    except Stopped as stopped:
        # To serve until somebody stops it is what was asked for.
        raise click.exceptions.Exit(0 if serve else stopped.exit_code) from stopped
    raise click.exceptions.Exit(1 if differing else 0)
