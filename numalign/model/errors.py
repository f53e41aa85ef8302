"""
Broken input, said once and completely.

A person who mends a manifest wants every mistake in one answer, each with its place. So whatever reads
input collects `Mistake`s and raises one error that holds them all; a program decides what a mistake costs
(a refused pod, an object left out of a snapshot, an exit code), never the reader.

What is wrong was often written by somebody who means harm: a name of megabytes, a million wrong entries. So a
mistake is short whatever it tells of, and an error holds no more mistakes than anybody reads.

    BadInput
    ├── BadQuantity    an amount that Kubernetes would not read either
    ├── BadIntent      numalign annotations or namespace labels that say nothing clear
    ├── BadPod         a pod whose resources cannot be reckoned
    └── BadTopology    a node's topology that contradicts itself
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

MOST_MISTAKES = 100
"""In one error; whoever has mended these is told the rest."""

LONGEST_WHERE = 500
LONGEST_MESSAGE = 2000
LONGEST_TEXT = 200
"""Characters of a mistake's parts; of a text, those around the place."""

_LEFT_OUT = "..."


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong: where it stands, what is wrong, and (if text) the place in it.

    What is longer than a person reads is cut when the mistake is made, so that nobody else has to.
    """

    where: str
    message: str
    text: str = ""
    at: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", cut(self.where, LONGEST_WHERE))
        object.__setattr__(self, "message", cut(self.message, LONGEST_MESSAGE))
        if len(self.text) > LONGEST_TEXT:
            text, at = _around(self.text, self.at)
            object.__setattr__(self, "text", text)
            object.__setattr__(self, "at", at)

    def __str__(self) -> str:
        """Return the mistake in one line, or in three with a caret under the place."""
        head = f"{self.where}: {self.message}" if self.where else self.message
        if self.at is None:
            return head
        return f"{head}\n  {self.text}\n  {' ' * self.at}^"

    def under(self, prefix: str) -> "Mistake":
        """Return the same mistake with `prefix` and a dot before its place."""
        where = f"{prefix}.{self.where}" if self.where else prefix
        return Mistake(where, self.message, self.text, self.at)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, in at most so many characters, with dots where the rest is left out."""
    return text if len(text) <= most else f"{text[: most - len(_LEFT_OUT)]}{_LEFT_OUT}"


def _around(text: str, at: int | None) -> tuple[str, int | None]:
    """`LONGEST_TEXT` characters of a longer text, its place among them, and where the place is then."""
    room = LONGEST_TEXT - 2 * len(_LEFT_OUT)
    begin = max(0, min((at or 0) - room // 2, len(text) - room))
    before = _LEFT_OUT if begin else ""
    after = _LEFT_OUT if begin + room < len(text) else ""
    shown = f"{before}{text[begin : begin + room]}{after}"
    return shown, None if at is None else at - begin + len(before)


AND_MORE = Mistake("", "there are more mistakes: fix these first")
"""The last of too many mistakes."""


class BadInput(ValueError):
    """Input that cannot be used; `mistakes` holds what is wrong with it, never nothing.

    That is everything, but for `MOST_MISTAKES` mistakes: what comes after them is only said to be there.
    """

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        first = tuple(islice(mistakes, MOST_MISTAKES + 1))
        self.mistakes = (*first[:MOST_MISTAKES], AND_MORE) if len(first) > MOST_MISTAKES else first
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        """Return every mistake, each on its own line."""
        return "\n".join(map(str, self.mistakes))


class BadQuantity(BadInput):
    """Raised when a text is not a Kubernetes quantity, or not one that an amount can have."""


class BadIntent(BadInput):
    """Raised when annotations or namespace labels cannot be read as an intent."""


class BadPod(BadInput):
    """Raised when a pod's containers or amounts cannot be read."""


class BadTopology(BadInput):
    """Raised when a node's zones cannot be read, or contradict each other."""
