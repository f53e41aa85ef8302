"""`kubectl numa completion`: the script that makes a shell complete commands, options and names."""

from types import MappingProxyType

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from kubectl_numa import completing

_SHELLS = MappingProxyType({"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete})


@click.command(
    epilog="""\b
Examples:
  kubectl numa completion bash > ~/.local/share/bash-completion/completions/kubectl-numa
  source <(kubectl numa completion zsh)
  kubectl numa completion fish | source
"""
)
@click.argument("shell", type=click.Choice([*_SHELLS]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script for bash, zsh or fish.

    The script completes `kubectl-numa`. To complete `kubectl numa`, use kubectl 1.26 or later with its own
    completion script, which calls `kubectl_complete-numa`. That program is installed next to this one and
    must be on the PATH.
    """
    click.echo(completing.script(_SHELLS[shell], context.find_root().command))
