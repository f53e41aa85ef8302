"""
Reading input that may be invalid.

A user who fixes a manifest wants every mistake at once, each with its path; a decoder is simpler without
error handling. `Part` provides both: missing, null or wrongly typed values read as empty, and each mistake is
noted once. The decoder reads to the end and then checks for mistakes. Paths are built only when a mistake is
noted, since nearly always there is none.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar, cast

from numalign.model import machine, resources
from numalign.model.errors import MOST_MISTAKES, BadInput, BadQuantity, Mistake
from numalign.model.intent import LONGEST_NAME
from numalign.model.machine import CpuSet
from numalign.model.resources import EMPTY, Resources

EnumT = TypeVar("EnumT", bound=StrEnum)

_LONGEST = 64
_EPOCH = datetime.fromtimestamp(0, UTC)

MOST_AMOUNTS = 256
"""The limit of resources in one list; a node has a few dozen."""
UID = re.compile(r"[!-~]{1,128}")
"""The syntax of a uid: an API server uses 36 letters, digits and dashes."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")

_NAMES: Mapping[type, str] = MappingProxyType(
    {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
)


class Part:
    """A value inside an object, its place, and the mistakes found in the whole object.

    `value` becomes None once it was found invalid, so it reads as absent from then on. Reading stops early
    after more than `MOST_MISTAKES` mistakes: lists and objects end then, and nothing more is noted.
    """

    __slots__ = ("_parent", "_step", "mistakes", "value")

    def __init__(self, value: object, step: str | int = "", parent: "Part | None" = None) -> None:
        self.value = value
        self.mistakes: list[Mistake] = [] if parent is None else parent.mistakes
        self._step = step
        self._parent = parent

    def __getitem__(self, key: str) -> "Part":
        """Return a member of an object; absent if there is none or this is not an object."""
        value = self.value
        if type(value) is not dict:
            value = self._fields()
        return Part(value.get(key), key, self)

    @property
    def where(self) -> str:
        """The path as users write it: `spec.containers[1].resources.limits.cpu`."""
        before = self._parent.where if self._parent else ""
        return f"{before}{_step(self._step)}".removeprefix(".")

    @property
    def parent(self) -> "Part":
        """The part that contains this one; the part itself if it is the whole object."""
        return self._parent or self

    def wrong(self, message: str) -> None:
        """Note a mistake at this place; the part reads as absent from then on."""
        if not self._enough():
            self.mistakes.append(Mistake(self.where, message))
        self.value = None

    def noting(self, mistakes: list[Mistake]) -> "Part":
        """Return the same part, which notes the mistakes in it here."""
        part = Part(self.value, self._step, self._parent)
        part.mistakes = mistakes
        return part

    def _enough(self) -> bool:
        return len(self.mistakes) > MOST_MISTAKES

    def raise_mistakes(self, error: type[BadInput]) -> None:
        """Raise `error` with every mistake noted in the whole object, if there is any."""
        if self.mistakes:
            raise error(self.mistakes)

    def required(self) -> "Part":
        """Return the part itself; note a mistake if it is absent or null."""
        if self.value is None:
            self.wrong("is missing")
        return self

    def objects(self) -> "Iterator[Part]":
        """Yield each object of a list."""
        for part in self.elements():
            if type(part.value) is dict:
                yield part
            else:
                part.wrong(f"must be an object, not {named(part.value)}")

    def elements(self) -> "Iterator[Part]":
        """Return each element of a list."""
        value = self.value
        if isinstance(value, list):
            return self._each(value)
        if value is not None:
            self.wrong(f"must be a list, not {named(value)}")
        return iter(())

    def _each(self, listed: Sequence[object]) -> "Iterator[Part]":
        for index, element in enumerate(listed):
            if self._enough():
                return
            yield Part(element, index, self)

    def members(self) -> "Iterator[tuple[str, Part]]":
        """Yield each member of an object whose value is not null."""
        for key, value in self._fields().items():
            if self._enough():
                return
            part = Part(value, str(key), self)
            if not isinstance(key, str):
                part.wrong("the key must be a string: put it in quotes")
            elif value is not None:
                yield key, part

    def only(self, names: Collection[str]) -> None:
        """Note every member of an object that is not one of these."""
        for name, part in self.members():
            if name not in names:
                part.wrong(f"is not a known field: expected one of {', '.join(names)}")

    def text(self) -> str:
        """Return a text; empty if absent."""
        value = self.value
        if isinstance(value, str):
            return value
        if value is not None:
            self.wrong(f"must be a string, not {named(value)}")
        return ""

    def required_text(self) -> str:
        """Return a non-empty text; note a mistake and return "" if there is none."""
        value = self.value
        if type(value) is str and value:
            return value
        if value == "":
            self.wrong("is empty")
            return ""
        return self.required().text()

    def uid(self) -> str:
        """Return the uid of an object; empty if absent or invalid."""
        text = self.text()
        if not text or UID.fullmatch(text):
            return text
        self.wrong(f"{named(text)} is not a UID: at most 128 ASCII characters without spaces are allowed")
        return ""

    def text_map(self) -> Mapping[str, str]:
        """Return an object of texts, like annotations, in a new dict; note others and read them as ""."""
        fields = self._fields()
        # Nearly always all are texts, and there may be thousands that are never used.
        if {*map(type, fields.values())} <= {str} and {*map(type, fields)} <= {str}:
            return {**cast("Mapping[str, str]", fields)}
        return {key: part.text() for key, part in self.members()}

    def one_of(self, enum: type[EnumT]) -> EnumT | None:
        """Return the enumeration member with this text; None if absent, empty or invalid (a mistake)."""
        text = self.text()
        if not text:
            return None
        try:
            return enum(text)
        except ValueError:
            self.wrong(f'"{_cut(text)}" is not a known value: {", ".join(enum)}')
            return None

    def integer(self, *, least: int = 0) -> int | None:
        """Return an integer of at least `least`, also from a text; None if absent or not an integer."""
        value = self.value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _LONGEST:
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(f"must be a whole number, not {named(value)}")
            return None
        if value < least:
            self.wrong(f"must be at least {least}, not {value}")
        return value

    def boolean(self) -> bool | None:
        """Return a JSON boolean; None if absent or wrong."""
        value = self.value
        if value is None or isinstance(value, bool):
            return value
        self.wrong(f"must be true or false, not {named(value)}")
        return None

    def time(self) -> int:
        """Return a time in whole seconds since 1970; 0 if absent or wrong."""
        text = self.text()
        try:
            read = datetime.fromisoformat(text) if text else _EPOCH
        except ValueError:
            self.wrong(f"{named(text)} is not a time such as 2026-01-02T03:04:05Z")
            return 0
        # A time without a time zone is ambiguous: the API writes UTC.
        return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())

    def cpu_list(self) -> CpuSet | None:
        """Return a set of CPUs in the kernel's list format (`0-3,8`); None if absent, empty or wrong."""
        text = self.text()
        try:
            return machine.read_list(text) or None
        except ValueError as error:
            self.wrong(str(error))
            return None

    def amount(self, resource: str) -> int | None:
        """Return an amount of a resource, in the unit of its name; None if absent or wrong."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, list | dict):
            self.wrong(f"must be a quantity, not {named(value)}")
            return None
        if len(resource) > LONGEST_NAME:
            self.wrong(
                f"is not a resource name: at most {LONGEST_NAME} characters are allowed, not {len(resource)}"
            )
            return None
        try:
            if type(value) is str:
                return amount_of(resource, value)
            # Python's shortest text of a number is the one that was written; a quantity is never a float.
            return resources.parse_amount(resource, repr(value) if isinstance(value, float) else value)
        except BadQuantity as error:
            if not self._enough():
                self.mistakes.extend(mistake.under(self.where) for mistake in error.mistakes)
            return None

    def amounts(self) -> Resources:
        """Return a resource list, like the limits of a container, without invalid amounts."""
        if self.value is None:
            return EMPTY
        if len(self._fields()) > MOST_AMOUNTS:
            self.wrong(f"has {len(self._fields())} entries: at most {MOST_AMOUNTS} are allowed")
            return EMPTY
        read = ((name, part.amount(name)) for name, part in self.members())
        return Resources({name: amount for name, amount in read if amount is not None})

    def _fields(self) -> Mapping[object, object]:
        if isinstance(self.value, dict):
            return self.value
        if self.value is not None:
            self.wrong(f"must be an object, not {named(self.value)}")
        return MappingProxyType({})


@lru_cache(maxsize=4096)
def amount_of(resource: str, text: str) -> int:
    """Return the amount as `resources.parse_amount` does; valid ones, which are short, are cached."""
    return resources.parse_amount(resource, text)


def named(value: object) -> str:
    """Return the type of a value in words; a text is quoted."""
    if isinstance(value, str):
        return f'"{_cut(value)}"'
    return _NAMES.get(type(value), "a number" if isinstance(value, int | float) else "something else")


def inner(value: object, *steps: str) -> object:
    """Return what is at the end of a path of members of any value; None if there is nothing."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def inner_list(value: object, *steps: str) -> list[object]:
    """Return the list at the end of a path of members of any value; empty if there is none."""
    value = inner(value, *steps)
    return value if isinstance(value, list) else []


def group(api_version: str) -> str:
    """Return the API group of an `apiVersion`: empty for v1."""
    return api_version.rpartition("/")[0]


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    plain = not step or (len(step) <= _LONGEST and _PLAIN.fullmatch(step))
    return f".{step}" if plain else f"[{_cut(step)}]"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
