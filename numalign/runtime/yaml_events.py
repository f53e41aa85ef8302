"""Read YAML as events, before anything is built from it, and say what is wrong with it."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

import yaml

from numalign.runtime.nesting import DEEPEST, TOO_DEEP


class NestedTooDeep(Exception):
    """Raised when a document is nested too deep; the message says so."""


def read(text: bytes) -> Iterator[yaml.Event]:
    """Yield the events of a text; raise `yaml.YAMLError`, or `NestedTooDeep` if it is nested too deep.

    The parser reads ahead, so it may meet a limit of its own before it yields the events up to there. They
    are read again without what follows.
    """
    try:
        yield from _limited(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            # Its index counts characters, of at most four bytes.
            end = error.problem_mark.index
            before = text[: 4 * end].decode(errors="replace")[:end]
            with suppress(yaml.YAMLError):
                deque(_limited(yaml.parse(before, Loader=yaml.CSafeLoader)), maxlen=0)
        raise


def why_not_yaml(error: Exception) -> str:
    """Return why a text cannot be read, after reading has failed: `is not YAML: ...`."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        return f"is not YAML: {error.problem}{place}"
    return f"is not YAML: {' '.join(str(error).split()) or 'a value does not fit its tag'}"


def _limited(events: Iterable[yaml.Event]) -> Iterator[yaml.Event]:
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise NestedTooDeep(TOO_DEEP)
        yield event
