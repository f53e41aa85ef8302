"""
How deep foreign documents may be nested, the same for JSON and YAML.

Parsers have limits of their own, which differ between versions and report them in other words. So levels are
counted here, in time and memory proportional to the text.
"""

from array import array
from itertools import accumulate

DEEPEST = 100
"""Kubernetes' own objects nest some twenty levels, the schemas inside a CustomResourceDefinition more."""

TOO_DEEP = f"is nested deeper than {DEEPEST} levels"

_BRACKETS = b'[]{}"'
_OTHERS = bytes(set(range(256)).difference(_BRACKETS))
_STEPS = bytes.maketrans(b"[{]}", bytes([1, 1, 0xFF, 0xFF]))
"""One level deeper or, as a signed byte, less deep."""


def json_levels(text: bytes) -> int:
    """Return how deep the objects and arrays of a text in JSON are nested; it may be cut off anywhere."""
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    # Without the strings that contain no bracket, few quotes remain, and every second part is in quotes.
    marks = plain.translate(None, _OTHERS).replace(b'""', b"")
    outside = b"".join(marks.split(b'"')[::2])
    return max(accumulate(array("b", outside.translate(_STEPS)), initial=0))


def why_not_json(text: bytes | str, error: Exception) -> str:
    """Return why a text cannot be read, after a parser has failed: `is not JSON: ...`."""
    content = text.encode(errors="replace") if isinstance(text, str) else text
    return TOO_DEEP if json_levels(content) > DEEPEST else f"is not JSON: {error}"
