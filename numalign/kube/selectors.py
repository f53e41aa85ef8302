"""
Label selectors as users write them after kubectl's `-l`: `tier in (gold,silver),!spot,zone!=b`.

Texts are parsed as kubectl does, restating labels.Parse of k8s.io/apimachinery/pkg/labels:

    selector     = [requirement {"," requirement}]
    requirement  = ["!"] key | key ("=" | "==" | "!=" | ">" | "<") [value] | key ("in" | "notin") values
    values       = "(" [value] {"," [value]} ")"      at least a value or a comma

Mistakes are reported with their place. A selector may come from any user who can open a page, so its length
is bounded, and parsing takes linear time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from numalign.kube.decode import label_syntax
from numalign.model.constraints import Operator, Requirement, whole_number
from numalign.model.errors import BadInput, Mistake

LONGEST = 8192
"""The limit of characters in a selector; more than fits into the URL that kubectl would send."""

_SPACE = " \t\r\n"
_TOKEN = re.compile(rf"[{_SPACE}]*(==|!=|[=!(),<>]|[^{_SPACE}=!(),<>]+)")
_SIGNS = frozenset({"==", "!=", *"=!(),<>"})
_END = ""

_COMPARISONS: Mapping[str, Operator] = MappingProxyType(
    {
        "=": Operator.IN,
        "==": Operator.IN,
        "!=": Operator.NOT_IN,
        ">": Operator.GT,
        "<": Operator.LT,
    }
)
_OF_SETS: Mapping[str, Operator] = MappingProxyType({"in": Operator.IN, "notin": Operator.NOT_IN})
_ONE_VALUE: Mapping[Operator, str] = MappingProxyType({Operator.IN: "=", Operator.NOT_IN: "!="})


class BadSelector(BadInput):
    """Raised for a text that is not a label selector, or one that no label could match."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """What labels must be: all of the requirements, so that one without any selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet every requirement."""
        return all(requirement.holds(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the selector as `parse` and the API server's `labelSelector` read it."""
        return ",".join(map(_written, self.requirements))


EVERYTHING = LabelSelector()


def parse(text: str, *, where: str = "-l") -> LabelSelector:
    """Return the selector in a text; an empty one selects everything.

    Raise `BadSelector` with every mistake, with `where` the text was given and its place in it.
    """
    if len(text) > LONGEST:
        raise BadSelector(
            [Mistake(where, f"is {len(text):,} characters long; at most {LONGEST:,} are allowed")]
        )
    requirements: list[Requirement] = []
    mistakes: list[Mistake] = []
    try:
        for at, requirement in _requirements(_Tokens(text)):
            requirements.append(requirement)
            mistakes += (Mistake(where, why, text, at) for why in _impossible(requirement))
    except _UnexpectedToken as error:
        mistakes.append(Mistake(where, str(error), text, error.at))
    if mistakes:
        raise BadSelector(mistakes)
    return LabelSelector(tuple(requirements))


class _Token(NamedTuple):
    """A sign or a word, and its position; the last one is empty."""

    text: str
    at: int

    @property
    def is_word(self) -> bool:
        return self.text not in _SIGNS and self.text != _END


class _UnexpectedToken(Exception):
    def __init__(self, token: _Token, expected: str) -> None:
        what = f'"{token.text}"' if token.text else "the end"
        super().__init__(f"expected {expected} instead of {what}")
        self.at = token.at


class _Tokens:
    """The tokens of a text, taken one by one."""

    def __init__(self, text: str) -> None:
        text = text.rstrip(_SPACE)
        self._tokens = [_Token(match[1], match.start(1)) for match in _TOKEN.finditer(text)]
        self._tokens.append(_Token(_END, len(text)))
        self._taken = 0

    @property
    def next(self) -> _Token:
        """The next token, which is not taken."""
        return self._tokens[self._taken]

    def take(self) -> _Token:
        """Return the next token; stay at the end."""
        token = self.next
        self._taken = min(self._taken + 1, len(self._tokens) - 1)
        return token

    def take_if(self, text: str) -> bool:
        """Take the next token if it is this one, and return whether it was."""
        if self.next.text != text:
            return False
        self.take()
        return True

    def take_word(self, expected: str) -> str:
        """Return the next token; raise `_UnexpectedToken` for a sign and at the end."""
        token = self.take()
        if not token.is_word:
            raise _UnexpectedToken(token, expected)
        return token.text


def _requirements(tokens: _Tokens) -> Iterator[tuple[int, Requirement]]:
    """Yield every requirement and its position; raise `_UnexpectedToken`."""
    if tokens.next.text == _END:
        return
    while True:
        at = tokens.next.at
        yield at, _requirement(tokens)
        separator = tokens.take()
        if separator.text == _END:
            return
        if separator.text != ",":
            raise _UnexpectedToken(separator, '"," or the end')


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.take_if("!")
    key = tokens.take_word("the key of a label")
    if absent:
        return Requirement(key, Operator.DOES_NOT_EXIST)
    if tokens.next.text in {",", _END}:
        return Requirement(key, Operator.EXISTS)
    operator = tokens.take()
    if comparison := _COMPARISONS.get(operator.text):
        return Requirement(key, comparison, frozenset({_value(tokens)}))
    if of_set := _OF_SETS.get(operator.text):
        return Requirement(key, of_set, frozenset(_values(tokens)))
    raise _UnexpectedToken(operator, f"one of {', '.join((*_COMPARISONS, *_OF_SETS))}")


def _value(tokens: _Tokens) -> str:
    """Return the value to compare a label with; a missing one is empty."""
    return "" if tokens.next.text in {",", _END} else tokens.take_word("a value")


def _values(tokens: _Tokens) -> Iterator[str]:
    """Yield the values in parentheses; nothing between two commas is an empty value."""
    if not tokens.take_if("("):
        raise _UnexpectedToken(tokens.next, '"("')
    if tokens.next.text == ")":
        raise _UnexpectedToken(tokens.next, "a value")
    while True:
        yield "" if tokens.next.text in {",", ")"} else tokens.take_word("a value")
        separator = tokens.take()
        if separator.text == ")":
            return
        if separator.text != ",":
            raise _UnexpectedToken(separator, '"," or ")"')


def _impossible(requirement: Requirement) -> Iterator[str]:
    """Yield why no label could meet a requirement."""
    if why := label_syntax.impossible(requirement.key, sorted(requirement.values)):
        yield why
    elif requirement.operator in {Operator.GT, Operator.LT}:
        yield from (
            f"{value!r} is not a whole number, which > and < require"
            for value in requirement.values
            if whole_number(value) is None
        )


def _written(requirement: Requirement) -> str:
    sign = _ONE_VALUE.get(requirement.operator)
    if sign and len(requirement.values) == 1:
        return f"{requirement.key}{sign}{_only(requirement.values)}"
    return str(requirement)


def _only(values: Iterable[str]) -> str:
    (value,) = values
    return value
