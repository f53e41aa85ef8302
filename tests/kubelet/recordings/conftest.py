"""Tables that conformance tests show at their end, and how the cases of other projects turned out."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from tests.kubelet.recordings.cases import Json

TABLES = pytest.StashKey[list[str]]()


@dataclass
class Ledger:
    """How the cases of one project turned out: as the project says, or otherwise and why.

    A case that differs must be named in `different`, and a case that is named there must differ.
    """

    project: str
    different: Mapping[str, StrEnum]
    outcomes: Counter[str] = field(default_factory=Counter)

    def compare(self, case: Json, *, ours: object, theirs: object) -> None:
        """Settle one case; fails if it differs and is not listed, or agrees and is."""
        reason = self.different.get(case["id"])
        self.outcomes[reason.name if reason else "agree"] += 1
        if reason:
            assert ours != theirs, f"agrees now, so it is not different for {reason.name}"
        else:
            assert ours == theirs

    def leave_out(self, count: int) -> None:
        self.outcomes["no counterpart"] += count

    def lines(self) -> list[str]:
        return [f"{self.project:<20}{outcome:<24}{n:>5}" for outcome, n in self.outcomes.most_common()]


@pytest.fixture(scope="session")
def tables(pytestconfig: pytest.Config) -> list[str]:
    """Lines that the run shows at its end, whatever is captured."""
    return pytestconfig.stash.setdefault(TABLES, [])


@pytest.fixture(scope="session")
def new_ledger(tables: list[str]) -> Iterable[Callable[[str, Mapping[str, StrEnum]], Ledger]]:
    made: list[Ledger] = []

    def make(project: str, different: Mapping[str, StrEnum]) -> Ledger:
        made.append(Ledger(project, different))
        return made[-1]

    yield make
    for ledger in made:
        tables.extend(ledger.lines())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(TABLES, [])
    if lines:
        terminalreporter.section("conformance")
        terminalreporter.write_line("\n".join(lines))
