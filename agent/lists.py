"""
A list of objects, read one object at a time.

Read as a whole, a list takes some twenty times its bytes of memory, and whoever may make pods decides how
many bytes those of a node have. So only one of its items is ever there as values, whoever reads it.
"""

import json
import re
from collections.abc import Iterator

ITEMS = "items"

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


class NoList(Exception):
    """What was read is no list of objects; the text says where that shows."""


def members(body: bytes) -> Iterator[tuple[str, object]]:
    """The members of a list by name, and in place of its items each of them; raises `NoList`.

    Texts are read as Latin-1, in which every byte is a character and takes no more room than one: all that is
    looked for in objects is ASCII.
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
    """A value, and where that begins which comes after it."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (json.JSONDecodeError, RecursionError) as error:
        raise NoList(f"it is not JSON: {error}") from error
    return value, _past(text, end, "")


def _after(text: str, at: int, closing: str) -> int:
    """Past a comma, unless all ends here."""
    if text.startswith(closing, at):
        return at
    following = _past(text, at, ",")
    if text.startswith(closing, following):
        raise NoList(f"it is not JSON: nothing follows the comma at character {at}")
    return following


def _past(text: str, at: int, expected: str) -> int:
    """Past what has to stand here, and the white space around it."""
    at = _past_blank(text, at)
    if not text.startswith(expected, at):
        raise NoList(f'it is not JSON: expected "{expected}" at character {at}')
    return _past_blank(text, at + len(expected))


def _past_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at
