"""
The program and its commands.

A command is imported when it is chosen: most of what starting takes are columns, and the client of the API
server, and no command needs all of it.
"""

import click

from kubectl_numa.lazy import LazyCommand, LazyGroup
from numalign.runtime import about

COMMANDS = (
    LazyCommand("check", "kubectl_numa.commands.check", "Check which manifests and running pods fall short"),
    LazyCommand(
        "completion", "kubectl_numa.commands.completion", "Print a script that completes what is typed"
    ),
    LazyCommand(
        "defrag", "kubectl_numa.commands.defrag", "Tell which pods would have to move for one to fit"
    ),
    LazyCommand("demo", "kubectl_numa.commands.demo", "Start the webhook on a bundled cluster"),
    LazyCommand("doctor", "kubectl_numa.commands.doctor", "Tell what nodes lack for exact verdicts"),
    LazyCommand("explain", "kubectl_numa.commands.explain", "Tell what every node says to a pod"),
    LazyCommand("map", "kubectl_numa.commands.map", "Draw the zones of all nodes"),
    LazyCommand("nodes", "kubectl_numa.commands.nodes", "Draw the zones of nodes"),
    LazyCommand("pods", "kubectl_numa.commands.pods", "Tell what running pods hold"),
    LazyCommand(
        "replay", "kubectl_numa.commands.replay", "Predict what a kubelet says to one pod after another"
    ),
    LazyCommand("shapes", "kubectl_numa.commands.shapes", "List the shapes of nodes"),
    LazyCommand(
        "simulate", "kubectl_numa.commands.simulate", "Replay a trace of GPU pods under several strategies"
    ),
    LazyCommand(
        "snapshot", "kubectl_numa.commands.snapshot", "Write what the rules need of the cluster into one file"
    ),
    LazyCommand("ungate", "kubectl_numa.commands.ungate", "Lift the gates of pods where no controller does"),
    LazyCommand("version", "kubectl_numa.commands.version", "Tell which versions run"),
)


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,
    name="kubectl-numa",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  kubectl numa demo
  kubectl numa nodes
  kubectl numa doctor
  kubectl numa explain -f pod.yaml
  kubectl numa check -f deploy/ --snapshot cluster.json.gz
""",
)
@click.version_option(about.version(), prog_name="kubectl-numa")
def program() -> None:
    """See NUMA alignment as the kubelet will: which nodes can take a pod, in which zones, and why not."""
