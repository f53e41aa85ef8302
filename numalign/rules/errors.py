"""
Broken input, said once and completely.

A person who mends a manifest wants every mistake in one answer, each with its place. So whatever reads
input collects `Mistake`s and raises one error that holds them all; a door decides what a mistake costs
(a refused pod, an object left out of a snapshot, an exit code), never the reader.

    BadInput
    ├── BadQuantity    an amount that Kubernetes would not read either
    ├── BadIntent      numalign annotations or namespace labels that say nothing clear
    ├── BadPod         a pod whose resources cannot be reckoned
    └── BadTopology    a node's topology that contradicts itself
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong: where it stands, what is wrong, and (if text) the place in it."""

    where: str
    message: str
    text: str = ""
    at: int | None = None

    def __str__(self) -> str:
        """The mistake in one line, or in three with a caret under the place."""
        head = f"{self.where}: {self.message}" if self.where else self.message
        if self.at is None:
            return head
        return f"{head}\n  {self.text}\n  {' ' * self.at}^"

    def under(self, prefix: str) -> "Mistake":
        """The same mistake, seen from a parent of the place where it stands."""
        where = f"{prefix}.{self.where}" if self.where else prefix
        return Mistake(where, self.message, self.text, self.at)


class BadInput(ValueError):
    """Input that cannot be used; `mistakes` holds all that is wrong with it, never nothing."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        """Every mistake, each on its own line."""
        return "\n".join(map(str, self.mistakes))


class BadQuantity(BadInput):
    """Raised when a text is not a Kubernetes quantity, or not one that an amount can have."""


class BadIntent(BadInput):
    """Raised when annotations or namespace labels cannot be read as an intent."""


class BadPod(BadInput):
    """Raised when a pod's containers or amounts cannot be read."""


class BadTopology(BadInput):
    """Raised when a node's zones cannot be read, or contradict each other."""
