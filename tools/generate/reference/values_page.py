"""docs/reference/values.md: the values of the chart, their defaults, and the comments above them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.generate.reference.tables import cell, code, table

VALUES = Path(__file__).resolve().parents[3] / "deploy" / "chart" / "values.yaml"

HEAD = """# Values of the chart

Every value of the Helm chart with its default, from the comments of `deploy/chart/values.yaml`.
`values.schema.json` describes the same to programs: Helm rejects a value that is invalid before it
installs anything. [Install numalign](../how-to/install.md) has the values that most installations set.
"""


_SHARED_BY = 3


@dataclass(frozen=True, slots=True)
class Value:
    """A value, or a map of values, where `default` is empty."""

    path: tuple[str, ...]
    default: str
    comment: str


def page() -> str:
    """The whole page: a table for what stands at the top alone, and one for each map."""
    text = VALUES.read_text(encoding="utf-8")
    values = list(read(text))
    lone = [value for value in values if len(value.path) == 1 and value.default]
    alike = _alike(values)
    shared = {value for several in alike for value in several}
    parts = [HEAD, "## The release\n", _table([[value] for value in lone])]
    for top in (value for value in values if len(value.path) == 1 and not value.default):
        below = [[value] for value in values if value.path[0] == top.path[0] and value is not top]
        own = [row for row in below if row[0] not in shared and (row[0].default or row[0].comment)]
        parts += [f"## {top.path[0]}\n", *([f"{top.comment}\n"] if top.comment else []), _table(own)]
    return "\n".join([*parts, "## Values that several programs have\n", _table(alike)])


def _alike(values: list[Value]) -> list[list[Value]]:
    """Values of at least three programs that differ in nothing but the program."""
    found: dict[tuple[object, ...], list[Value]] = {}
    for value in values:
        if len(value.path) > 1 and value.comment:
            found.setdefault((value.path[1:], value.default, value.comment), []).append(value)
    return [several for several in found.values() if len(several) >= _SHARED_BY]


def read(text: str) -> Iterator[Value]:
    """The values in their order; a map that is written in braces is one value."""
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    yield from _below(root, (), lines)


def _below(node: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        here = (*path, str(key.value))
        comment = _comment(lines, key.start_mark.line)
        below = list(_below(value, here, lines)) if _is_map(value) else []
        if any(each.comment for each in below):
            yield Value(here, "", comment)
            yield from below
        else:
            yield Value(here, _default(value, lines), comment)


def _is_map(node: yaml.Node) -> bool:
    """Whether a map has its keys on lines of their own."""
    return isinstance(node, yaml.MappingNode) and not node.flow_style


def _default(value: yaml.Node, lines: list[str]) -> str:
    """As it is written, or as it would be on one line."""
    if _is_map(value):
        entries = ((key.value, _default(below, lines)) for key, below in value.value)
        return f"{{{', '.join(f'{key}: {text}' for key, text in entries)}}}"
    if isinstance(value, yaml.SequenceNode) and not value.flow_style:
        return f"[{', '.join(_default(each, lines) for each in value.value)}]"
    if isinstance(value, yaml.ScalarNode) and value.style in {"|", ">"}:
        where = f"values.yaml:{value.start_mark.line + 1}"
        raise ValueError(f"{where}: write this default in quotes: a table has no room for its lines")
    start, end = value.start_mark, value.end_mark
    written = lines[start.line : end.line + 1] if end.column else lines[start.line : end.line]
    if start.line == end.line:
        return lines[start.line][start.column : end.column]
    return " ".join(part.strip() for part in [lines[start.line][start.column :], *written[1:]])


def _comment(lines: list[str], line: int) -> str:
    above = list[str]()
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        above.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(above)


def _table(values: list[list[Value]]) -> str:
    rows = (
        (
            ", ".join(code(".".join(each.path)) for each in row),
            row[0].default and code(row[0].default),
            cell(row[0].comment),
        )
        for row in values
    )
    return table(("value", "default", "meaning"), rows)
