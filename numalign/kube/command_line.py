"""
What programs for people share: errors in a sentence, and the options that lead to a cluster.

Whoever types is told what is wrong and what to do, never where in the program it was noticed. The names of
options are kubectl's own.
"""

import signal
from collections.abc import Callable
from typing import TypeVar

import click

from numalign.kube.errors import ClusterError
from numalign.model.errors import BadInput

R = TypeVar("R")

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a program that was ended by Ctrl-C, as shells have it."""


class Trouble(click.ClickException):
    """What cannot be done, for a reason that the caller can mend; exit code 2."""

    exit_code = 2


class CommandGroup(click.Group):
    """A group of commands that turns bad input and bad weather into sentences with exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except KeyboardInterrupt as error:
            raise click.exceptions.Exit(INTERRUPTED) from error
        except (BadInput, ClusterError) as error:
            raise Trouble(str(error)) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise Trouble(f"{place}{error.strerror or error}") from error


def from_kubeconfig(command: Callable[..., R]) -> Callable[..., R]:
    """Adds --kubeconfig and --context."""
    command = click.option("--context", metavar="NAME", help="Context of the kubeconfig.")(command)
    help_ = "Kubeconfig of the cluster; by default what kubectl would use."
    return click.option("--kubeconfig", metavar="FILE", help=help_)(command)
