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
_AT_ONCE = 4096  # Brackets that are counted before a look at whether they are too deep already.


def is_too_deep(text: bytes, above: int = 0) -> bool:
    """Return whether JSON, or a part of it that begins at level `above`, is nested deeper than DEEPEST."""
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    # Without the strings that contain no bracket, few quotes remain, and every second part is in quotes.
    marks = plain.translate(None, _OTHERS).replace(b'""', b"")
    steps = array("b", b"".join(marks.split(b'"')[::2]).translate(_STEPS))
    level = above
    for start in range(0, len(steps), _AT_ONCE):
        levels = [*accumulate(steps[start : start + _AT_ONCE], initial=level)]
        if max(levels) > DEEPEST:
            return True
        level = levels[-1]
    return False


def why_not_json(text: bytes | str, error: Exception) -> str:
    """Return why a text cannot be read, after a parser has failed: `is not JSON: ...`."""
    content = text.encode(errors="replace") if isinstance(text, str) else text
    return TOO_DEEP if is_too_deep(content) else f"is not JSON: {error}"
