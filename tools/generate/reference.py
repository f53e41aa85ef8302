"""The generated pages of docs/reference: `python -m tools.generate reference`."""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import click
import yaml

from agent.settings import AgentSettings
from certs.cli import program as certs
from controller.settings import ControllerSettings
from kubectl_numa.cli import LazyCommand
from kubectl_numa.cli import program as kubectl_numa
from kubectl_numa.kubelet_versions import ROWS
from numalign.kube.command_line import from_kubeconfig
from numalign.runtime import settings
from numalign.runtime.settings import SettingHelp, Settings
from scorer.settings import ScorerSettings
from tools.generate.tables import cell, code, table
from webhook.settings import WebhookSettings

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
VALUES = ROOT / "deploy" / "chart" / "values.yaml"

PROGRAMS: Mapping[str, type[Settings]] = {
    "numalign-webhook": WebhookSettings,
    "numalign-scorer": ScorerSettings,
    "numalign-controller": ControllerSettings,
    "numalign-agent": AgentSettings,
}

FLAGS = f"""# Flags of the programs

The settings of `numalign-webhook`, `numalign-scorer`, `numalign-controller` and `numalign-agent`.
{settings.ORDER}
For example, the variable of `--log-level` is `NUMALIGN_LOG_LEVEL`, and its key in the file is `log-level`.
A program reports all mistakes in its settings at once and exits with code 2.

The chart sets most of these flags by [its values](values.md). [kubectl numa](kubectl-numa.md) and
[numalign-certs](numalign-certs.md) have pages of their own.
"""

OF_KUBECTL_NUMA = """# kubectl numa

The commands of `kubectl numa` (the program `kubectl-numa`) and their flags. [Exit codes](exit-codes.md)
explains how they end.
"""

OF_CERTS = """# numalign-certs

Commands that inspect, issue and rotate certificates. You need none of them while the controller or
cert-manager keeps the certificate: see [Certificates](../how-to/certificates.md).
"""

OF_VALUES = """# Values of the chart

Every value of the Helm chart with its default, from the comments of `deploy/chart/values.yaml`.
`values.schema.json` describes the same to programs: Helm rejects a value that is invalid before it
installs anything. [Install numalign](../how-to/install.md) has the values that most installations set.
"""

OF_VERSIONS = """# Differences between versions of the kubelet

What kubelets of Kubernetes 1.32 to 1.37, and of the pre-release 1.38.0-beta.0, do differently from the minor
version before: in verdicts, affinities or CPU IDs. Each change comes with its pull request and a smallest
case that shows it: a node, and a pod that arrives there. The results are predictions, and the tests of
`tests/kubelet/oracle` compare each with the managers of these kubelets. 1.38 may still change.

`kubectl numa versions` prints this list. In its JSON, `case` has the lines for `kubectl numa replay`:

```sh
kubectl numa versions -o json | jq -c '.[] | select(.change == "own-size") | .case[]' | kubectl numa replay
```

[The kubelet](../explanation/kubelet.md#what-changes-between-versions) has the changes beside the managers.

"""

Row = tuple[str, str]

SHARED_BY = 3
"""What so many commands or programs have alike is explained once."""


def flags() -> str:
    """Every flag of the programs that run in a cluster, from their settings."""
    groups: dict[type, dict[str, list[SettingHelp]]] = {}
    for program, model in PROGRAMS.items():
        for group, described in settings.explained(model).items():
            groups.setdefault(group, {})[program] = described
    every = ((code(head), cell(text)) for head, text in settings.EVERY_PROGRAM.items())
    parts = [FLAGS, "## Every program\n", table(("flag", "meaning"), every)]
    for group, programs in groups.items():
        parts += [
            f"## {settings.summary(group).removesuffix('.')}\n",
            f"Used by {', '.join(map(code, programs))}.\n",
            table(("flag", "default", "meaning"), _settings(programs)),
        ]
    return "\n".join(parts)


def _settings(programs: Mapping[str, list[SettingHelp]]) -> Iterator[tuple[str, str, str]]:
    """A row for each setting; one for each program where programs have other defaults or words for it."""
    for variants in zip(*programs.values(), strict=True):
        alike = len(set(variants)) == 1
        for program, setting in [*zip(programs, variants, strict=True)][: 1 if alike else None]:
            head = f"{setting.flag} {setting.placeholder}".rstrip()
            meaning = cell(f"{setting.description} ({setting.expected})")
            default = "" if setting.default == "null" else code(setting.default)
            yield code(head), default, meaning if alike else f"{code(program)}: {meaning}"


def commands(head: str, group: click.Group, called: str) -> str:
    """Every command with its help; `called` is how the program is typed."""
    # A command keeps the help option of the first context that asks for it.
    above = click.Context(group, **group.context_settings)
    listed = list(_commands(group, called))
    connection = _options(click.command()(from_kubeconfig(lambda: None)))
    uses = Counter(row for _, each in listed for row in _options(each) if row not in connection)
    shared = [row for row, count in uses.items() if count >= SHARED_BY]
    sections = (line for name, each in listed for line in _section(name, each, above, shared, connection))
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
    usage = " ".join(command.collect_usage_pieces(click.Context(command, parent=above, info_name=called)))
    yield f"## {called}\n"
    if usage != "[OPTIONS]":
        yield f"```text\n{called} {usage}\n```\n"
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    yield "\n\n".join(map(_paragraph, paragraphs)) + "\n"
    # Examples as they are typed, anything else as it is, below its first line.
    for part in filter(None, (part.strip("\n") for part in (command.epilog or "").split("\b\n"))):
        head, _, rest = part.partition("\n")
        text = textwrap.dedent(rest).rstrip("\n")
        if head == "Examples:":
            yield f"```console\n{textwrap.indent(text, '$ ')}\n```\n"
        else:
            yield f"{head}\n\n```text\n{text}\n```\n"
    rows = _options(command)
    if own := [row for row in rows if row not in shared and row not in connection]:
        yield table(("flag", "meaning"), own)
    also = []
    if names := [code(re.findall(r"--[\w-]+", row[0])[0]) for row in rows if row in shared]:
        also.append(f"[flags of several commands](#flags-of-several-commands): {', '.join(names)}")
    if connection[0] in rows:
        also.append("[flags of the connection](#flags-of-the-connection)")
    if also:
        yield f"Also {'; '.join(also)}.\n"


def _paragraph(text: str) -> str:
    """A part of a help as Markdown; what click is to leave as it is becomes a block of its own."""
    verbatim = text.removeprefix("\b\n")
    if verbatim != text:
        return f"```text\n{textwrap.dedent(verbatim)}\n```"
    return text.replace("<", "&lt;").replace("*", r"\*")


def _options(command: click.Command) -> list[Row]:
    nothing = click.Context(click.Command(None))
    return [
        (
            code(
                ", ".join([*option.opts, *option.secondary_opts])
                + ("" if option.is_flag else f" {option.make_metavar(nothing)}")
            ),
            cell(option.help or ""),
        )
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]


def versions() -> str:
    """What kubelets do differently from one minor version to the next."""
    rows = (
        (
            row.since,
            code(row.change),
            f"{cell(row.what)} ([#{row.pull}]({row.url}))",
            row.effect,
            cell(row.before),
            cell(row.after),
        )
        for row in ROWS
    )
    return OF_VERSIONS + table(("since", "change", "what", "effect", "before", "after"), rows)


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, or a map of values, where `default` is empty."""

    path: tuple[str, ...]
    default: str
    comment: str


def values() -> str:
    """A table of the values at the top alone, and one for each map."""
    read = list(read_values(VALUES.read_text(encoding="utf-8")))
    variants: dict[tuple[object, ...], list[Value]] = {}
    for value in read:
        if len(value.path) > 1 and value.comment:
            variants.setdefault((value.path[1:], value.default, value.comment), []).append(value)
    # Values of several programs that differ in nothing but the program.
    alike = [several for several in variants.values() if len(several) >= SHARED_BY]
    shared = {value for several in alike for value in several}
    lone = [[value] for value in read if len(value.path) == 1 and value.default]
    parts = [OF_VALUES, "## The release\n", _values(lone)]
    for top in (value for value in read if len(value.path) == 1 and not value.default):
        below = [value for value in read if value.path[0] == top.path[0] and value is not top]
        own = [[value] for value in below if value not in shared and (value.default or value.comment)]
        parts += [f"## {top.path[0]}\n", *([f"{top.comment}\n"] if top.comment else []), _values(own)]
    return "\n".join([*parts, "## Values that several programs have\n", _values(alike)])


def _values(rows: list[list[Value]]) -> str:
    cells = (
        (
            ", ".join(code(".".join(each.path)) for each in row),
            row[0].default and code(row[0].default),
            cell(row[0].comment),
        )
        for row in rows
    )
    return table(("value", "default", "meaning"), cells)


def read_values(text: str) -> Iterator[Value]:
    """The values in their order; a map that is written in braces is one value."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return _below(root, (), text)


def _below(node: yaml.MappingNode, path: tuple[str, ...], text: str) -> Iterator[Value]:
    for key, value in node.value:
        here = (*path, str(key.value))
        above = reversed(text.splitlines()[: key.start_mark.line])
        lines = [*takewhile(lambda line: line.startswith("#"), map(str.lstrip, above))]
        comment = " ".join(line.removeprefix("#").strip() for line in reversed(lines))
        below = list(_below(value, here, text)) if _is_block(value, yaml.MappingNode) else []
        if any(each.comment for each in below):
            yield Value(here, "", comment)
            yield from below
        else:
            yield Value(here, _default(value, text), comment)


def _is_block(node: yaml.Node, kind: type[yaml.CollectionNode]) -> bool:
    """Whether a map or a list has its entries on lines of their own."""
    return isinstance(node, kind) and not node.flow_style


def _default(value: yaml.Node, text: str) -> str:
    """As it is written, or as it would be on one line."""
    if _is_block(value, yaml.MappingNode):
        return f"{{{', '.join(f'{key.value}: {_default(below, text)}' for key, below in value.value)}}}"
    if _is_block(value, yaml.SequenceNode):
        return f"[{', '.join(_default(each, text) for each in value.value)}]"
    start, end = value.start_mark, value.end_mark
    if isinstance(value, yaml.ScalarNode) and value.style in {"|", ">"}:
        raise ValueError(
            f"values.yaml:{start.line + 1}: quote this default: a table has no room for its lines"
        )
    return re.sub(r"\s*\n\s*", " ", text[start.index : end.index])


PAGES: Mapping[str, Callable[[], str]] = {
    "flags.md": flags,
    "kubectl-numa.md": lambda: commands(OF_KUBECTL_NUMA, kubectl_numa, "kubectl numa"),
    "kubelet-versions.md": versions,
    "numalign-certs.md": lambda: commands(OF_CERTS, certs, "numalign-certs"),
    "values.md": values,
}


def files() -> dict[Path, str]:
    return {FOLDER / name: page() for name, page in PAGES.items()}
