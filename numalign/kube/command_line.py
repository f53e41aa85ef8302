"""
What command line programs share: errors as sentences, and the options for a cluster.

Users see what is wrong and what to do, never where in the program it was detected. The names of options are
kubectl's own.
"""

import inspect
import re
import shutil
import signal
from collections.abc import Callable, Iterable
from functools import wraps
from types import MappingProxyType
from typing import Any

import click

from numalign.kube import name_completion
from numalign.kube.connection import Connection
from numalign.kube.errors import ClusterError
from numalign.model.errors import BadInput
from numalign.model.spelling import closest_word

Option = Callable[[Callable[..., Any]], Callable[..., Any]]

_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

FILE = click.Path(readable=False)
"""The name of a file, which a shell completes; errors are reported when it is opened."""

INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a program that was ended by Ctrl-C, as in shells."""


def for_terminal(text: str) -> str:
    """Return the same lines without characters that control a terminal or the reading direction.

    Manifests, annotations and answers of servers may contain any characters.
    """
    return _UNSAFE_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)


class Trouble(click.ClickException):
    """An error that the user can fix; exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        """Return the reason, as a terminal shows it."""
        return for_terminal(self.message)


class NarrowHelp(click.HelpFormatter):
    """A help formatter for narrow terminals: there the description of an option is below it."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options, or commands, and what they do."""
        super().write_dl(rows, min(col_max, 4) if self.width < _NARROW else col_max, col_spacing)


class NarrowContext(click.Context):
    """A context whose help is as wide as the terminal, at least forty columns."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return the formatter of the help."""
        columns = min(shutil.get_terminal_size().columns, _WIDEST)
        return NarrowHelp(width=max(columns, _NARROWEST) - 2)


_NARROWEST, _NARROW, _WIDEST = 40, 60, 80


class CommandGroup(click.Group):
    """A group of commands that turns invalid input and cluster errors into sentences with exit code 2."""

    context_class = NarrowContext

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called, and its arguments; a misspelt one is told the closest."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            near = closest_word(word, self.list_commands(ctx))
            hint = f"; did you mean {near}?" if near else ""
            ctx.fail(f'there is no command "{word}"{hint}')
        return super().resolve_command(ctx, args)


def joined(argument: str, build: Callable[..., object], *options: Option) -> Option:
    """Add options, in this order; `build` turns their values into one argument of the command."""

    def add(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def with_built(*arguments: object, **values: object) -> object:
            parts = {name: values.pop(name) for name in inspect.signature(build).parameters if name in values}
            return command(*arguments, **{argument: build(**parts)}, **values)

        decorated: Callable[..., object] = with_built
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


_DURATION = re.compile(r"(?:([0-9]{1,9})(ms|s|m|h))(?=[0-9]|$)")
_SECONDS = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0})


def duration(text: str) -> float:
    """Return seconds from text as kubectl reads it: `30`, `30s`, `1m30s`, `500ms`; raise `ValueError`."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(
            "a duration is a number of seconds, or numbers with the units h, m, s and ms, such as 1m30s"
        )
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)


def _limit(_context: click.Context, _option: click.Parameter, text: str) -> float | None:
    """Return seconds; None for 0, which is no limit."""
    try:
        return duration(text) or None
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error


from_kubeconfig = joined(
    "connection",
    Connection,
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=FILE,
        help="Path to the kubeconfig. Defaults to the one that kubectl uses.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=name_completion.contexts,
        help="Kubeconfig context to use.",
    ),
    click.option("-s", "--server", metavar="URL", help="Address of the API server."),
    click.option(
        "--token", metavar="TOKEN", help="Bearer token for the API server; replaces all other credentials."
    ),
    click.option("--as", "user", metavar="USER", help="User to impersonate in requests to the API server."),
    click.option(
        "--as-group",
        "groups",
        metavar="GROUP",
        multiple=True,
        help="Group to impersonate in addition to --as; may be repeated.",
    ),
    click.option(
        "--request-timeout",
        metavar="TIME",
        default="0",
        callback=_limit,
        help="Time limit for each request to the API server: 30s, 1m30s. The default, 0, sets no limit.",
    ),
    click.option(
        "--certificate-authority",
        metavar="FILE",
        type=FILE,
        help="File with the CA certificate of the API server.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        help="Do not verify the API server's certificate. Insecure: an impostor can read the token and forge"
        " responses.",
    ),
)
"""Adds kubectl's flags for the cluster and the credentials, joined into one argument `connection`."""
