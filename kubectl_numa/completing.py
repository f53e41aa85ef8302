"""
What a shell completes, and how it asks.

kubectl asks a plugin by the program `kubectl_complete-numa`: with the words after `kubectl numa`, the last of
which is to be completed, and reads a completion a line, its description behind a tab, and in the last line a
number that says how the shell goes on (k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go, and cobra's
ShellCompDirective).
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click
from click.shell_completion import ShellComplete

from kubectl_numa.interrupts import end_at_once

PROGRAM, VARIABLE = "kubectl-numa", "_KUBECTL_NUMA_COMPLETE"
"""The program, and the variable by which a shell's script asks it."""

FILES, NO_FILES = ":0", ":4"
"""The shell goes on with files, or with nothing."""


def script(shell: type[ShellComplete], program: click.Command) -> str:
    """What a shell reads to complete the program."""
    # The class's own way starts a shell first, to see how old it is.
    return ShellComplete.source(shell(program, {}, PROGRAM, VARIABLE))


def answer(program: click.Command, words: Sequence[str]) -> Iterator[str]:
    """What kubectl reads: completions of the last word, a line each, and how its shell goes on."""
    *before, incomplete = words or [""]
    items = ShellComplete(program, {}, PROGRAM, VARIABLE).get_completions(list(before), incomplete)
    for item in items:
        if item.type == "plain":
            yield f"{item.value}\t{item.help}" if item.help else str(item.value)
    yield FILES if any(item.type in {"file", "dir"} for item in items) else NO_FILES


def main() -> None:
    """`kubectl_complete-numa`, which kubectl starts."""
    from kubectl_numa.cli import program  # noqa: PLC0415  it knows of this module

    end_at_once()
    text = "".join(f"{line}\n" for line in answer(program, sys.argv[1:]))
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), text.encode())
