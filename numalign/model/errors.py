"""
Invalid input, reported once and completely.

A user who fixes a manifest wants every mistake at once, each with its place. So every reader of input
collects `Mistake`s and raises one error that holds them all. The program decides what a mistake costs (a
refused pod, an object left out of a snapshot, an exit code), never the reader.

Invalid input may be an attack: a name of megabytes, a million wrong entries. So a mistake is always short,
and an error holds a limited number of mistakes.

    BadInput
    ├── BadQuantity    an amount that Kubernetes would not read either
    ├── BadIntent      invalid numalign annotations or namespace labels
    ├── BadPod         a pod whose resources cannot be computed
    └── BadTopology    a node's topology that contradicts itself
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

MOST_MISTAKES = 100
"""The limit of mistakes in one error; the rest is reported after these are fixed."""

LONGEST_WHERE = 500
LONGEST_MESSAGE = 2000
LONGEST_TEXT = 200
"""The limits of a mistake's parts in characters; of a text, those around the place are kept."""

_LEFT_OUT = "..."


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: the path of the field, a message, and (with `text`) the position in the text.

    Long parts are cut when the mistake is made, so that no other code has to.
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
        """Return the mistake in one line, or in three with a caret under the place.

        Line breaks in its parts are replaced: nobody may write a line that looks like another mistake.
        """
        head = one_line(f"{self.where}: {self.message}" if self.where else self.message)
        if self.at is None:
            return head
        return f"{head}\n  {one_line(self.text)}\n  {' ' * self.at}^"

    def under(self, prefix: str) -> "Mistake":
        """Return the same mistake with `prefix` and a dot before its path."""
        where = f"{prefix}.{self.where}" if self.where else prefix
        return Mistake(where, self.message, self.text, self.at)


def one_line(text: str) -> str:
    """Return a text of as many characters without line breaks."""
    return text.replace("\n", "\N{REPLACEMENT CHARACTER}")


def cut(text: str, most: int) -> str:
    """Return the beginning of a text in at most `most` characters, with dots if the rest is cut."""
    return text if len(text) <= most else f"{text[: most - len(_LEFT_OUT)]}{_LEFT_OUT}"


def _around(text: str, at: int | None) -> tuple[str, int | None]:
    """Return `LONGEST_TEXT` characters of a longer text around a position, and the position in them."""
    room = LONGEST_TEXT - 2 * len(_LEFT_OUT)
    begin = max(0, min((at or 0) - room // 2, len(text) - room))
    before = _LEFT_OUT if begin else ""
    after = _LEFT_OUT if begin + room < len(text) else ""
    shown = f"{before}{text[begin : begin + room]}{after}"
    return shown, None if at is None else at - begin + len(before)


AND_MORE = Mistake("", "there are more mistakes: fix these first")
"""The last of too many mistakes."""


class BadInput(ValueError):
    """Input that cannot be used; `mistakes` holds at least one mistake.

    Beyond `MOST_MISTAKES` mistakes, it holds only the first ones and `AND_MORE`.
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
