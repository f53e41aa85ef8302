"""`kubectl numa demo`: everything on a bundled cluster."""

import asyncio

import click

from kubectl_numa import options
from kubectl_numa.demo import story
from kubectl_numa.demo.webhook import Stopped, stoppable


@options.command("kubectl numa demo", "kubectl numa demo --serve --port 9443")
@click.option("--serve", is_flag=True, help="Keep the webhook running, and print commands to try.")
@options.port_option(8443)
def demo(*, serve: bool, port: int) -> None:
    """Start the webhook on a bundled cluster, and show what it decides for bundled pods.

    Part one is small enough to check by hand; part two has the nodes and pods of a real GPU cluster. The last
    line sums up both.

    Exit code 0: every bundled pod has the expected outcome. 1: at least one does not.
    """
    writer = options.text_writer()
    try:
        if serve:
            asyncio.run(stoppable(story.serve(writer, port=port)))
        differing = asyncio.run(stoppable(story.play(writer)))
    except Stopped as stopped:
        # With --serve a signal is the way to end it, not a failure.
        raise click.exceptions.Exit(0 if serve else stopped.exit_code) from stopped
    raise click.exceptions.Exit(1 if differing else 0)
