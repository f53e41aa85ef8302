"""
Leaves tests out of a run that does not ask for them, and says so at its end.

Some tests need what takes minutes to build, or a network. They carry a mark, which a run asks for by name;
what is left out is counted in the last lines, so that nobody takes silence for success.
"""

from dataclasses import dataclass, field

import pytest


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Tests with a mark: what they need, what they are of, and the command that runs them.

    The hooks of a conftest.py call the methods of the same purpose.
    """

    mark: str
    needs: str
    of: str
    command: str
    left_out: pytest.StashKey[int] = field(default_factory=pytest.StashKey[int])

    def declare(self, config: pytest.Config) -> None:
        """Make the mark known."""
        config.addinivalue_line("markers", f"{self.mark}: needs {self.needs}; run with -m {self.mark}")

    def leave_out(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Drop the tests with the mark, unless the run names it."""
        if self.mark in config.option.markexpr:
            return
        left_out = [item for item in items if item.get_closest_marker(self.mark)]
        items[:] = [item for item in items if not item.get_closest_marker(self.mark)]
        config.hook.pytest_deselected(items=left_out)
        config.stash[self.left_out] = len(left_out)

    def tell(self, reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Say how many were dropped, and how to run them."""
        if count := config.stash.get(self.left_out, 0):
            reporter.line(f"{count} tests of {self.of} were not asked for; to run them: {self.command}")
