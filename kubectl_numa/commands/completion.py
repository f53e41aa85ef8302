"""
`kubectl numa completion`: the script of a shell, and kubectl's protocol for completion.

kubectl runs the program `kubectl_complete-numa` with the words after `kubectl numa`, the last of which is to
be completed. It reads one completion per line, with its description after a tab, and in the last line a
directive for the shell (k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, and cobra's ShellCompDirective).
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from kubectl_numa.interrupts import end_at_once

_PROGRAM, _VARIABLE = "kubectl-numa", "_KUBECTL_NUMA_COMPLETE"
"""The program, and the variable with which a shell's script calls it for completions."""

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
    # The class's own method first starts a shell, to determine its version.
    complete = _SHELLS[shell](context.find_root().command, {}, _PROGRAM, _VARIABLE)
    click.echo(ShellComplete.source(complete))


def answer(program: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Yield what kubectl reads: completions of the last word, one per line, and a directive."""
    *before, incomplete = words or [""]
    items = ShellComplete(program, {}, _PROGRAM, _VARIABLE).get_completions(list(before), incomplete)
    for item in items:
        if item.type == "plain":
            yield f"{item.value}\t{item.help}" if item.help else str(item.value)
    # Complete files, or nothing else.
    yield ":0" if any(item.type in {"file", "dir"} for item in items) else ":4"


def main() -> None:
    """Run as `kubectl_complete-numa`, which kubectl starts."""
    from kubectl_numa.cli import program  # noqa: PLC0415  it imports this module

    end_at_once()
    text = "".join(f"{line}\n" for line in answer(program, sys.argv[1:]))
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), text.encode())
