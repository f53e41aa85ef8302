"""Every metric and every log event has its line in docs/, and docs/ has no others, as the sources are."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from numalign.kube.informer import WatchFailure
from numalign.runtime.metrics import PREFIX
from tests.worlds.syntax import parsed, walked

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
PACKAGES = ("numalign", "webhook", "scorer", "controller", "agent", "certs", "kubectl_numa", "examples")


@cache
def sources() -> dict[str, str]:
    files = (path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def rows(name: str) -> list[list[str]]:
    lines = (ROOT / "docs" / "reference" / name).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


# Metrics: calls whose first argument begins with PREFIX.

TYPES = {"counter": "_total", "gauge": "", "histogram": ""}
USES_PREFIX = re.compile(
    r"^from numalign\.runtime\.metrics import [^)]*\bPREFIX\b|^PREFIX = \"numalign_\"", re.MULTILINE
)


def declared(source: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, type and labels of the metrics that a module declares."""
    for node in walked(parsed(source)):
        match node:
            case ast.Call(
                args=[ast.JoinedStr([ast.FormattedValue(ast.Name("PREFIX")), ast.Constant(str(rest))]), *_]
            ):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                kind = called.lower().removesuffix("metricfamily")
                named = [each.value for each in node.keywords if each.arg in {"labelnames", "labels"}]
                labels = [ast.literal_eval(each) for each in [*node.args[2:3], *named]]
                yield f"{PREFIX}{rest}{TYPES[kind]}", kind, tuple(*labels)


def test_metrics_page_lists_every_metric_once() -> None:
    modules = [text for text in sources().values() if USES_PREFIX.search(text)]
    documented = [
        (name.strip("`"), kind, tuple(re.findall(r"`([^`]+)`", labels)))
        for name, kind, labels, _ in rows("metrics.md")
    ]
    assert sorted(documented) == sorted(metric for text in modules for metric in declared(text))


# Log events: texts that are given to a method of a log, or to a function that passes them on to one.

FILES = (".html", ".js")
LOGGED = re.compile(r"log\.(debug|info|warning|error|failed)\(\s*\"([a-z_]+\.[a-z_]+)\"")
TEXT = re.compile(r"\(\s*(?:[\w.]+,\s*)?\"([a-z_]+\.[a-z_]+)\"[,)]")


def events() -> dict[str, set[str]]:
    """The documented events with their levels."""
    return {name.strip("`"): set(levels.split(", ")) for name, levels, *_ in rows("logs.md")}


def test_every_event_has_its_line_with_its_levels() -> None:
    found = [each for text in sources().values() for each in LOGGED.findall(text)]
    levels = {(event, "error" if level == "failed" else level) for level, event in found}
    assert levels
    assert levels <= {(event, level) for event, documented in events().items() for level in documented}
    families = {event.partition(".")[0] for event in events()}
    given = {event for text in sources().values() for event in TEXT.findall(text)}
    given = {event for event in given if event.partition(".")[0] in families and not event.endswith(FILES)}
    assert given | {f"watch.{reason}" for reason in WatchFailure} | {"library"} == events().keys()
