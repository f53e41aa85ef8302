"""
The program and its commands.

A command is imported when it is chosen: most of what starting takes are columns, and the client of the API
server, and no command needs all of it.
"""

import click

from kubectl_numa.lazy import LazyCommand, LazyGroup
from numalign.runtime import about

COMMANDS = (
    LazyCommand("check", "Check which manifests and running pods fall short"),
    LazyCommand("completion", "Print a script that completes what is typed"),
    LazyCommand("defrag", "Tell which pods would have to move for one to fit"),
    LazyCommand("demo", "Start the webhook on a bundled cluster"),
    LazyCommand("doctor", "Tell what nodes lack for exact verdicts"),
    LazyCommand("explain", "Tell what every node says to a pod"),
    LazyCommand("map", "Draw the zones of all nodes"),
    LazyCommand("nodes", "Draw the zones of nodes"),
    LazyCommand("pods", "Tell what running pods hold"),
    LazyCommand("replay", "Predict what a kubelet says to one pod after another"),
    LazyCommand("shapes", "List the shapes of nodes"),
    LazyCommand("simulate", "Replay a trace of GPU pods under several strategies"),
    LazyCommand("snapshot", "Write what the rules need of the cluster into one file"),
    LazyCommand("ungate", "Lift the gates of pods where no controller does"),
    LazyCommand("verify", "Check that the admission webhook reviews pods"),
    LazyCommand("version", "Tell which versions run"),
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
