"""The table at the end of a run of the tests that did not run: which, why, and how to run them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.worlds import opt_in
from tests.worlds.opt_in import LEFT_OUT
from tests.worlds.programs import how_to_get

HEAD = ("tests", "of", "why", "how to run them")

Row = tuple[str, str, str, str]


def tell(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = [*skipped(reporter.stats.get("skipped", [])), *left_out(config.stash.get(LEFT_OUT, {}))]
    if rows:
        count = sum(int(row[0]) for row in rows)
        reporter.section(f"{count} {'test' if count == 1 else 'tests'} did not run", yellow=True, bold=True)
        for line in table([HEAD, *rows]):
            reporter.line(line)


def skipped(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Iterator[Row]:
    """A row for each file and reason; tests that were asked for say what they need."""
    seen = Counter[tuple[str, str, str]]()
    for report in reports:
        assert isinstance(report.longrepr, tuple)
        why = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
        needs = [f"needs {each.needs}" for each in opt_in.ALL if each.mark in report.keywords]
        seen[report.nodeid.partition("::")[0], why, how_to_get(why) or " ".join(needs)] += 1
    for (file, why, how), count in sorted(seen.items()):
        yield str(count), file, why, how


def left_out(counts: dict[str, int]) -> Iterator[Row]:
    """A row for each mark that the run did not ask for."""
    for each in opt_in.ALL:
        if count := counts.get(each.mark):
            yield str(count), each.of, f"needs {each.needs}", each.command


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a table, in columns as wide as they must be."""
    first, *others = [len(max(column, key=len)) for column in zip(*rows, strict=True)]
    for count, *cells in rows:
        words = [f"{cell:{width}}" for cell, width in zip(cells, others, strict=True)]
        yield "  ".join([f"{count:>{first}}", *words]).rstrip()
