"""
Files that people edit: one YAML document each, for a whole cluster.

An error in such a file must neither stop a running program nor be applied in part. So it is read as a whole
or not at all, and all mistakes are reported at once, each with its place; an unknown key is nearly always
misspelt.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from numalign.kube.decode.parts import Part
from numalign.kube.files import documents
from numalign.model.errors import BadInput, Mistake
from numalign.model.spelling import closest_word

MOST_BYTES = 2**20
"""The limit of a ConfigMap."""

_GUESSED = 16

Read = TypeVar("Read")


def read(path: Path, parse: Callable[[bytes], Read], *, error: type[BadInput]) -> Read:
    """Return the result of `parse` for a file; raise `error` with every mistake and the file's path."""
    try:
        return parse(_content(path))
    except BadInput as raised:
        raise error(
            replace(mistake, where=f"{path}: {mistake.where}" if mistake.where else f"{path}")
            for mistake in raised.mistakes
        ) from raised


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise BadInput([Mistake("", "is not a regular file")])
        return path.read_bytes()
    except OSError as error:
        raise BadInput([Mistake("", f"cannot be read: {error.strerror}")]) from error


def parse(data: bytes, decode: Callable[[Part], Read], *, what: str, error: type[BadInput]) -> Read:
    """Return the result of `decode` for YAML or JSON with one `what`; raise `error` with every mistake."""
    try:
        values = documents.values(data, most=MOST_BYTES)
    except BadInput as raised:
        raise error(_advised(mistake, what) for mistake in raised.mistakes) from raised
    if len(values) > 1:
        raise error([Mistake("", f"contains {len(values)} documents: a {what} is a single one")])
    part = Part(values[0])
    decoded = decode(part)
    part.raise_mistakes(error)
    return decoded


def _advised(mistake: Mistake, what: str) -> Mistake:
    """Return the mistake; that of an empty file advises what to write if it is empty on purpose."""
    advice = f": write {{}} for no {what}" if mistake.message == "is empty" else ""
    return replace(mistake, message=f"{mistake.message}{advice}")


def only(part: Part, *names: str) -> None:
    """Note every member that is not one of these, with the closest name."""
    unknown = ((name, member) for name, member in members(part) if name not in names)
    # A guess takes time, and no user reads the guesses of a thousand mistakes.
    for name, member in islice(unknown, _GUESSED):
        close = closest_word(name, names)
        hint = f'did you mean "{close}"?' if close else f"expected one of {', '.join(names)}"
        member.wrong(f"unknown key; {hint}")


def members(part: Part) -> list[tuple[str, Part]]:
    """Return each member of an object, null or not: a key without a value is a mistake, too."""
    present = dict(part.members())
    written = part.value if isinstance(part.value, dict) else {}
    return [(name, present.get(name, part[name])) for name in written if isinstance(name, str)]
