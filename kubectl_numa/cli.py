"""
The program: its commands, and what becomes of an error.

Whoever types is told what is wrong and what to do, never where in the program it was noticed.
"""

import click

from kubectl_numa.commands.check import check
from kubectl_numa.commands.demo import demo
from kubectl_numa.commands.explain import explain
from kubectl_numa.commands.nodes import nodes
from kubectl_numa.commands.replay import replay
from kubectl_numa.commands.snapshot import snapshot
from kubectl_numa.options import Trouble
from numalign.cluster.api import ClusterError
from numalign.rules.errors import BadInput
from numalign.runtime import about


class Program(click.Group):
    """A group of commands that turns bad input and bad weather into sentences with exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (BadInput, ClusterError) as error:
            raise Trouble(str(error)) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise Trouble(f"{place}{error.strerror or error}") from error


@click.group(
    cls=Program,
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


for _command in (explain, check, nodes, snapshot, replay, demo):
    program.add_command(_command)
