"""Every metric and every log event has its line in docs/, and docs/ tells of no others.

Both are read out of the sources' syntax trees, so that a part which no test happens to build is not
forgotten. A metric's name is an f-string that begins with PREFIX, an event's name a text given to a method of
a log; what is put together in another way fails here rather than being missed.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from numalign.kube.informer import WatchFailure
from numalign.runtime import logs
from numalign.runtime.metrics import PREFIX
from tests.worlds.syntax import parsed, walked

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources() -> dict[str, ast.Module]:
    """The syntax tree of every file, by its path."""
    return {
        path.relative_to(ROOT).as_posix(): parsed(path.read_text())
        for folder in (
            "numalign",
            "webhook",
            "scorer",
            "controller",
            "agent",
            "certs",
            "kubectl_numa",
            "examples",
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def rows(name: str) -> list[list[str]]:
    """The cells of a table whose first column holds names."""
    lines = (ROOT / "docs" / "reference" / name).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def words(cell: str) -> tuple[str, ...]:
    """The names in a cell."""
    return tuple(re.findall(r"`([^`]+)`", cell))


def name_of(node: ast.expr) -> str:
    """The last name of a callable or a variable: `counter`, `Counter` of `prometheus_client.Counter`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# Metrics.

TYPES = {
    "Counter": "counter",
    "counter": "counter",
    "Gauge": "gauge",
    "gauge": "gauge",
    "CounterMetricFamily": "counter",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "histogram": "histogram",
}
SUFFIXES = {"counter": "_total", "gauge": "", "histogram": ""}


@dataclass(frozen=True)
class Metric:
    """A metric as it is scraped."""

    name: str
    type: str
    labels: tuple[str, ...]


def counts(tree: ast.Module) -> bool:
    """Whether a module declares metrics, and so imports their prefix."""
    imports = (node for node in walked(tree) if isinstance(node, ast.ImportFrom))
    return any(
        node.module == "numalign.runtime.metrics" and "PREFIX" in {alias.name for alias in node.names}
        for node in imports
    )


def is_prefix(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "PREFIX" and isinstance(node.ctx, ast.Load)


def called(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls whose first argument is a name after PREFIX, and that name."""
    for node in walked(tree):
        match node:
            case ast.Call(
                args=[ast.JoinedStr([ast.FormattedValue(value), ast.Constant(str() as rest)]), *_]
            ) if is_prefix(value):
                yield node, rest


def labels(call: ast.Call) -> tuple[str, ...]:
    given = [word.value for word in call.keywords if word.arg in {"labelnames", "labels"}]
    listed = [*call.args[2:3], *given]
    return tuple(ast.literal_eval(listed[0])) if listed else ()


def declared() -> list[Metric]:
    """The metrics that the sources declare."""
    found = []
    for path, tree in sources().items():
        if counts(tree) or path == "numalign/runtime/metrics.py":
            for call, rest in called(tree):
                kind = TYPES[name_of(call.func)]
                found.append(Metric(f"{PREFIX}{rest}{SUFFIXES[kind]}", kind, labels(call)))
    return found


def test_metrics_page_lists_every_metric() -> None:
    documented = {Metric(words(row[0])[0], row[1], words(row[2])) for row in rows("metrics.md")}
    assert documented == set(declared())


def test_every_metric_is_declared_once() -> None:
    names = [metric.name for metric in declared()]
    told = [words(row[0])[0] for row in rows("metrics.md")]
    assert (max(Counter(names).values()), max(Counter(told).values())) == (1, 1)


def test_no_metric_is_named_in_a_way_that_is_not_seen_here() -> None:
    for path, tree in sources().items():
        if counts(tree):
            used = sum(map(is_prefix, walked(tree)))
            assert used == len(list(called(tree))), f"{path}: begin each metric's name with {{PREFIX}}"


def test_each_meaning_is_a_sentence() -> None:
    assert [row[0] for row in rows("metrics.md") if not row[3].endswith(".")] == []


# Log events.

EVENT = re.compile(r"[a-z_]+\.[a-z_{}]+")
METHODS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "failed": "error"}

COMPUTED = {"watch.{reason}": [f"watch.{reason}" for reason in WatchFailure]}
"""Names that are put together, and all that they can come to."""


@dataclass(frozen=True)
class Said:
    """An event that is logged somewhere, and the levels that it can have there, empty if a table decides."""

    event: str
    levels: frozenset[str]


def is_log(node: ast.expr) -> bool:
    return name_of(node).lower().endswith("log")


def level(node: ast.AST) -> str | None:
    """The level of a log's method, if this is one: `self._log.info`."""
    if isinstance(node, ast.Attribute) and is_log(node.value):
        return METHODS.get(node.attr)
    return None


def text(node: ast.expr) -> str | None:
    """A text as it is written, with names in braces for what it is put together from."""
    match node:
        case ast.Constant(str() as value):
            return value
        case ast.JoinedStr(values):
            return "".join(
                f"{{{name_of(part.value)}}}" if isinstance(part, ast.FormattedValue) else text(part) or ""
                for part in values
            )
    return None


def ways(function: Function) -> dict[str, frozenset[str]]:
    """The variables of a function that are methods of a log (`say = log.info if loud else log.debug`)."""
    found = {}
    for node in walked(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            levels = {level(part) for part in walked(node.value)} - {None}
            called = isinstance(node.value, ast.Call) and level(node.value.func)
            if levels and not called:
                by_table = isinstance(node.value, ast.Call)
                found[node.targets[0].id] = frozenset(() if by_table else map(str, levels))
    return found


def wrapper(function: Function) -> frozenset[str]:
    """The levels of a function that logs the `event` which it is given."""
    calls = (node for node in walked(function) if isinstance(node, ast.Call))
    passing = (call for call in calls if call.args and name_of(call.args[0]) == "event")
    return frozenset(found for call in passing if (found := level(call.func)))


def functions(tree: ast.Module) -> list[Function]:
    """Functions and methods, but not those inside them."""
    classes = [node for node in walked(tree) if isinstance(node, ast.ClassDef)]
    bodies = [tree.body, *(each.body for each in classes)]
    return [node for body in bodies for node in body if isinstance(node, Function)]


def wrappers_in(tree: ast.Module) -> dict[str, frozenset[str]]:
    return {function.name: levels for function in functions(tree) if (levels := wrapper(function))}


def inherited(path: str) -> dict[str, frozenset[str]]:
    """The functions that log for others, of the one module whose classes others inherit them from."""
    return wrappers_in(sources()["certs/watcher.py"]) if path.startswith("certs/") else {}


def said(path: str, tree: ast.Module) -> Iterator[Said]:
    """The events that a module logs."""
    wrappers = {**inherited(path), **wrappers_in(tree)}
    for function in functions(tree):
        variables = ways(function)
        for call in (node for node in walked(function) if isinstance(node, ast.Call)):
            direct, name = level(call.func), name_of(call.func)
            if not direct and name not in wrappers and name not in variables:
                continue
            if direct and function.name in wrappers:
                continue
            event = next(filter(None, map(text, call.args)), "")
            assert EVENT.fullmatch(event), f"{path}:{call.lineno}: name the event in so many words"
            yield Said(event, frozenset({direct}) if direct else {**wrappers, **variables}[name])


@cache
def logged() -> dict[str, set[str]]:
    """Every event, with its levels as far as they can be seen."""
    found: dict[str, set[str]] = {}
    for path, tree in sources().items():
        if path != "numalign/runtime/logs.py":
            for each in said(path, tree):
                for event in COMPUTED.get(each.event, [each.event]):
                    found.setdefault(event, set()).update(each.levels)
    return found


def test_every_event_has_its_line_and_every_line_its_event() -> None:
    # What libraries say has an event of its own.
    assert "library" in Path(logs.__file__).read_text()
    assert {words(row[0])[0] for row in rows("logs.md")} == {*logged(), "library"}


def test_log_events_have_the_documented_levels() -> None:
    seen = {event: levels for event, levels in logged().items() if levels}
    told = {words(row[0])[0]: set(row[1].split(", ")) for row in rows("logs.md")}
    assert {event: told.get(event) for event in seen} == seen


def test_levels_are_levels() -> None:
    assert {word for row in rows("logs.md") for word in row[1].split(", ")} <= {*METHODS} - {"failed"}
