"""Says at the end of a run how many shell blocks of the documents are run, and where."""

from collections import Counter

import pytest

COUNTS = pytest.StashKey[Counter[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if counts := config.stash.get(COUNTS, Counter[str]()):
        terminalreporter.section("shell blocks of the documents")
        for line in sorted(f"{count:4} {what}" for what, count in counts.items()):
            terminalreporter.line(line)
