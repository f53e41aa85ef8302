"""docs/explanation/failures.md names events and metrics that there are, and leaves out no complaint.

faults.toml names the tests that prove each of its rows. Tests are read out of the syntax trees of their
modules, so that nothing has to be imported which needs an API server of its own.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explanation" / "failures.md").read_text()
PROOFS = tomllib.loads((ROOT / "tests" / "faults.toml").read_text())

HEAD = ("fault", "effect on users", "what numalign does")
METRIC = re.compile(r"(numalign_\w+)(?:\{([\w, ]+)\})?")
EVENT = re.compile(r"library|[a-z_]+\.[a-z_]+")


@dataclass(frozen=True)
class Row:
    """A fault, in a section of the page."""

    section: str
    fault: str
    effect: str
    done: str

    @property
    def proofs(self) -> tuple[str, ...]:
        """The tests that prove it."""
        return tuple(PROOFS[self.section][self.fault])

    @property
    def named(self) -> tuple[str, ...]:
        """Events, metrics and other words."""
        return words(self.fault) + words(self.effect) + words(self.done)

    def __str__(self) -> str:
        """For the name of a test."""
        return f"{self.section}: {self.fault}"


def words(cell: str) -> tuple[str, ...]:
    """The names in a cell."""
    return tuple(re.findall(r"`([^`]+)`", cell))


def lines(page: str) -> list[list[str]]:
    """The cells of all lines of tables, those between head and body left out."""
    found = [line.strip().strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in found if set("".join(cells)) - {"-"}]


def documented(page: str) -> dict[str, list[str]]:
    """The other cells of a table whose first holds a name."""
    cells = lines((ROOT / "docs" / "reference" / page).read_text())
    return {name: rest for first, *rest in cells for name in words(first)}


def rows(page: str) -> Iterator[Row]:
    """The rows of all tables of faults."""
    for part in page.split("\n## ")[1:]:
        cells = lines(part)
        if cells and tuple(cells[0]) == HEAD:
            yield from (Row(part.partition("\n")[0], *each) for each in cells[1:])


ROWS = [*rows(PAGE)]
EVENTS = documented("logs.md")
METRICS = documented("metrics.md")


@cache
def names_in(path: Path) -> set[str]:
    """The names of the tests in a module; one with parameters has one name."""
    tree = ast.parse(path.read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_fault_has_its_proofs_and_no_proof_is_of_another() -> None:
    assert len(ROWS) > 50
    assert [(row.section, row.fault) for row in ROWS] == [
        (section, fault) for section, proved in PROOFS.items() for fault in proved
    ]
    assert [row.fault for row in ROWS if not (row.effect and row.done)] == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_fault_is_proved_by_tests_that_there_are(row: Row) -> None:
    assert row.proofs
    for proof in row.proofs:
        module, _, name = proof.partition("::")
        path = ROOT / "tests" / module
        assert path.is_file(), f"there is no tests/{module}"
        assert name in names_in(path), f"tests/{module} has no {name}"


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_event_that_is_named_is_logged(row: Row) -> None:
    events = {word for word in row.named if EVENT.fullmatch(word)}
    assert events - EVENTS.keys() == set()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_metric_that_is_named_is_counted_by_these_labels(row: Row) -> None:
    for word in row.named:
        if found := METRIC.fullmatch(word):
            name, labels = found.groups()
            assert name in METRICS
            assert set(re.findall(r"\w+", labels or "")) <= {*words(METRICS[name][1])}
        else:
            assert "numalign_" not in word, f"{word} is not how a metric is written"


def test_whatever_is_complained_of_has_a_fault() -> None:
    loud = {event for event, (level, _) in EVENTS.items() if {"warning", "error"} & {*level.split(", ")}}
    assert loud - {word for row in ROWS for word in row.named} == set()
