"""Commands that are imported when they are used."""

from importlib import import_module

import click

from kubectl_numa import commands
from kubectl_numa.interrupts import ending_at_once
from numalign.kube.command_line import CommandGroup, NarrowContext


class LazyCommand(click.Command):
    """
    A command in a list, imported from the module of its name when it is used.

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


class LazyGroup(CommandGroup):
    """A group that imports only the command that is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before the command."""
        with ending_at_once():
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
