"""`kubectl numa completion`: what a shell reads to complete what is typed."""

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
    """Print a shell completion script, for the SHELL that reads it.

    The script completes `kubectl-numa`. `kubectl numa` is completed by kubectl's own script, from kubectl
    1.26 on: it calls `kubectl_complete-numa`, which is installed beside this program and has to be on the
    PATH.
    """
    click.echo(completing.script(_SHELLS[shell], context.find_root().command))
