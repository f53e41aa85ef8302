"""
Shell completion, and kubectl's protocol for it.

kubectl runs the program `kubectl_complete-numa` with the words after `kubectl numa`, the last of which is to
be completed. It reads one completion per line, with its description after a tab, and in the last line a
directive for the shell (k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, and cobra's ShellCompDirective).
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click
from click.shell_completion import ShellComplete

from kubectl_numa.interrupts import end_at_once

PROGRAM, VARIABLE = "kubectl-numa", "_KUBECTL_NUMA_COMPLETE"
"""The program, and the variable with which a shell's script calls it for completions."""

FILES, NO_FILES = ":0", ":4"
"""The directives: complete files, or nothing else."""


def script(shell: type[ShellComplete], program: click.Command) -> str:
    """Return the script with which a shell completes the program."""
    # The class's own method first starts a shell, to determine its version.
    return ShellComplete.source(shell(program, {}, PROGRAM, VARIABLE))


def answer(program: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Yield what kubectl reads: completions of the last word, one per line, and a directive."""
    *before, incomplete = words or [""]
    items = ShellComplete(program, {}, PROGRAM, VARIABLE).get_completions(list(before), incomplete)
    for item in items:
        if item.type == "plain":
            yield f"{item.value}\t{item.help}" if item.help else str(item.value)
    yield FILES if any(item.type in {"file", "dir"} for item in items) else NO_FILES


def main() -> None:
    """Run as `kubectl_complete-numa`, which kubectl starts."""
    from kubectl_numa.cli import program  # noqa: PLC0415  it knows of this module

    end_at_once()
    text = "".join(f"{line}\n" for line in answer(program, sys.argv[1:]))
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), text.encode())
