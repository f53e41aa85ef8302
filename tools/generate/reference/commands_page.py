"""docs/reference/kubectl-numa.md and numalign-certs.md: every command with its help, from click."""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator

import click

from certs.cli import program as certs
from kubectl_numa.cli import program as kubectl_numa
from kubectl_numa.lazy import LazyCommand
from numalign.kube.command_line import from_kubeconfig
from tools.generate.reference.tables import cell, code, table

OF_KUBECTL_NUMA = """# kubectl numa

The commands of `kubectl numa` (the program `kubectl-numa`) and their flags. [Exit codes](exit-codes.md)
explains how they end.
"""
OF_CERTS = """# numalign-certs

Commands that inspect, issue and rotate certificates. You need none of them while the controller or
cert-manager keeps the certificate: see [Certificates](../how-to/certificates.md).
"""


_SHARED_BY = 3
"""A flag with the same meaning for so many commands is explained once."""


Row = tuple[str, str]

_LONG = re.compile(r"--[\w-]+")


def kubectl_numa_page() -> str:
    return page_of(OF_KUBECTL_NUMA, kubectl_numa, "kubectl numa")


def certs_page() -> str:
    return page_of(OF_CERTS, certs, "numalign-certs")


def page_of(head: str, group: click.Group, called: str) -> str:
    """The commands of a group below a head; `called` is how the program is typed."""
    # A command keeps the help option of the first context that asks for it.
    above = click.Context(group, **group.context_settings)
    commands = list(_commands(group, called))
    connection = _rows(click.command()(from_kubeconfig(lambda: None)))
    uses = Counter(row for _, each in commands for row in _rows(each) if row not in connection)
    shared = [row for row, count in uses.items() if count >= _SHARED_BY]
    sections = (line for name, each in commands for line in _section(name, each, above, shared, connection))
    last = {"Flags of several commands": shared, "Flags of the connection": connection}
    tables = (f"## {title}\n\n{table(('flag', 'meaning'), rows)}" for title, rows in last.items() if rows)
    return "\n".join([head, *sections, *tables])


def _commands(group: click.Group, called: str) -> Iterator[tuple[str, click.Command]]:
    """The commands and, where one has some, its own, as they are typed."""
    for name, listed in group.commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        yield f"{called} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{called} {name}")


def _section(
    called: str, command: click.Command, above: click.Context, shared: Collection[Row], connection: list[Row]
) -> Iterator[str]:
    context = click.Context(command, parent=above, info_name=called)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {called}\n"
    if usage != "[OPTIONS]":
        yield f"```text\n{called} {usage}\n```\n"
    yield _prose(command.help or "")
    yield from _epilog(command.epilog or "")
    rows = _rows(command)
    if own := [row for row in rows if row not in shared and row not in connection]:
        yield table(("flag", "meaning"), own)
    also = []
    if names := [code(_LONG.findall(row[0])[0]) for row in rows if row in shared]:
        also.append(f"[flags of several commands](#flags-of-several-commands): {', '.join(names)}")
    if connection[0] in rows:
        also.append("[flags of the connection](#flags-of-the-connection)")
    if also:
        yield f"Also {'; '.join(also)}.\n"


def _rows(command: click.Command) -> list[Row]:
    options = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return [(_flag(option), cell(option.help or "")) for option in options]


def _prose(text: str) -> str:
    """A help as Markdown; what click is told to leave as it is stands in a block of its own."""
    paragraphs = (_paragraph(part) for part in inspect.cleandoc(text).split("\n\n"))
    return "\n\n".join(paragraphs) + "\n"


def _paragraph(text: str) -> str:
    verbatim = text.removeprefix("\b\n")
    if verbatim != text:
        return f"```text\n{textwrap.dedent(verbatim)}\n```"
    return text.replace("<", "&lt;").replace("*", r"\*")


def _epilog(text: str) -> Iterator[str]:
    """Its parts as blocks: examples as they are typed, anything else as it stands, below its first line."""
    for part in filter(None, (part.strip("\n") for part in text.split("\b\n"))):
        head, _, rest = part.partition("\n")
        lines = textwrap.dedent(rest).rstrip("\n").splitlines()
        if head == "Examples:":
            yield "```console\n" + "".join(f"$ {line}\n" for line in lines) + "```\n"
        else:
            yield f"{head}\n\n```text\n" + "".join(f"{line}\n" for line in lines) + "```\n"


def _flag(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command(None)))}"
    return code(f"{names}{takes}")
