"""
Read a list of objects one object at a time.

A list read as a whole takes about twenty times its bytes of memory, and users who may create pods decide how
large the pods of a node are. So only one of the items is held as values at a time.
"""

import json
import re
from collections.abc import Iterator

from numalign.runtime.nesting import TOO_DEEP

ITEMS = "items"

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


class NoList(Exception):
    """Raised when data is not a list of objects; the message has the position."""


def members(body: bytes) -> Iterator[tuple[str, object]]:
    """
    Yield the members of a list by name, and its items one by one; raise `NoList`.

    Text is decoded as Latin-1, in which every byte is a character and takes no more room than one: all that
    is read from objects is ASCII.
    """
    text = body.decode("latin-1")
    at = _past(text, 0, "{")
    while not text.startswith("}", at):
        name, at = _value(text, at)
        at = _past(text, at, ":")
        if name == ITEMS and text.startswith("[", at):
            at = _past(text, at, "[")
            while not text.startswith("]", at):
                value, at = _value(text, at)
                yield ITEMS, value
                at = _after(text, at, "]")
            at = _past(text, at, "]")
        else:
            value, at = _value(text, at)
            yield str(name), value
        at = _after(text, at, "}")
    if (end := _past(text, at, "}")) != len(text):
        raise NoList(f"there is data after its end, at character {end}")


def _value(text: str, at: int) -> tuple[object, int]:
    """Return a value, and where the next token begins."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise NoList(f"it {TOO_DEEP}") from error
    except json.JSONDecodeError as error:
        raise NoList(f"it is not JSON: {error}") from error
    return value, _past(text, end, "")


def _after(text: str, at: int, closing: str) -> int:
    """Return the position after a comma, or `at` if the collection ends here."""
    if text.startswith(closing, at):
        return at
    following = _past(text, at, ",")
    if text.startswith(closing, following):
        raise NoList(f"it is not JSON: nothing follows the comma at character {at}")
    return following


def _past(text: str, at: int, expected: str) -> int:
    """Return the position after `expected` and the white space around it."""
    at = _past_blank(text, at)
    if not text.startswith(expected, at):
        raise NoList(f'it is not JSON: expected "{expected}" at character {at}')
    return _past_blank(text, at + len(expected))


def _past_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at
