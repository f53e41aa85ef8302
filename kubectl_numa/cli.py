"""
The program and its commands.

A command is imported when it is used: NumPy and the API server's client take most of the start-up time, and
no command needs everything.
"""

from importlib import import_module

import click

from kubectl_numa import commands
from kubectl_numa.interrupts import ending_at_once
from numalign.kube.command_line import CommandGroup, NarrowContext
from numalign.runtime import about


class LazyCommand(click.Command):
    """A command in a list, imported from the module of its name when it is used.

    `summary` is the first sentence of its own help.
    """

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self._module, self._attribute = f"{commands.__name__}.{name}", name

    def load(self) -> click.Command:
        """Return the command itself."""
        with ending_at_once():
            command: click.Command = getattr(import_module(self._module), self._attribute)
        command.context_class = NarrowContext
        return command


class _LazyGroup(CommandGroup):
    """A group that imports only the command that is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with ending_at_once():
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


COMMANDS = (
    LazyCommand("check", "Check manifests and running pods"),
    LazyCommand("completion", "Print a shell completion script"),
    LazyCommand("defrag", "List the pods that would have to move to make room for a pod"),
    LazyCommand("demo", "Start the webhook on a bundled cluster"),
    LazyCommand("doctor", "Find what nodes lack for exact predictions, and how to fix it"),
    LazyCommand("explain", "Explain on which nodes a pod fits, and why not on others"),
    LazyCommand("map", "Draw the zones of all nodes"),
    LazyCommand("nodes", "Draw the zones of nodes"),
    LazyCommand("pending", "List why pods are pending, one line per cause"),
    LazyCommand("pods", "List what running pods hold, and whether they are aligned"),
    LazyCommand("replay", "Predict a kubelet's admission of one pod after another"),
    LazyCommand("shapes", "List the shapes of nodes"),
    LazyCommand("simulate", "Replay a trace of GPU pods under several strategies"),
    LazyCommand("snapshot", "Write a snapshot of the cluster to a file"),
    LazyCommand("ungate", "Lift scheduling gates when no controller runs"),
    LazyCommand("verify", "Check that the admission webhook reviews pods"),
    LazyCommand("version", "Print the versions of the programs in the cluster"),
    LazyCommand("versions", "List what kubelets of each version do differently"),
)


@click.group(
    cls=_LazyGroup,
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
    """See NUMA alignment as the kubelet does: which nodes can run a pod, in which zones, and why not."""
