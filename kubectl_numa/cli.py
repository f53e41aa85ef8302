"""The program and its commands."""

import click

from kubectl_numa.commands.check import check
from kubectl_numa.commands.demo import demo
from kubectl_numa.commands.explain import explain
from kubectl_numa.commands.nodes import nodes
from kubectl_numa.commands.replay import replay
from kubectl_numa.commands.shapes import shapes
from kubectl_numa.commands.snapshot import snapshot
from numalign.kube.command_line import CommandGroup
from numalign.runtime import about


@click.group(
    cls=CommandGroup,
    name="kubectl-numa",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  kubectl numa demo
  kubectl numa nodes
  kubectl numa explain -f pod.yaml
  kubectl numa check -f deploy/ --snapshot cluster.json.gz
""",
)
@click.version_option(about.version(), prog_name="kubectl-numa")
def program() -> None:
    """See NUMA alignment as the kubelet will: which nodes can take a pod, in which zones, and why not."""


for _command in (explain, check, nodes, shapes, snapshot, replay, demo):
    program.add_command(_command)
