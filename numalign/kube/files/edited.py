"""
Files that people edit: one YAML document each, for a whole cluster.

A slip in such a file must neither stop a program that runs nor half apply. So it is read as a whole or not at
all, and everything that is wrong with it is told at once, each mistake with its place; a key that nobody
knows is nearly always one that is misspelt.
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
"""What a ConfigMap may hold."""

_GUESSED = 16

Read = TypeVar("Read")


def read(path: Path, parse: Callable[[bytes], Read], *, error: type[BadInput]) -> Read:
    """Return what `parse` makes of a file; raises `error` with every mistake, each with the file's path."""
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
    """Return what `decode` makes of YAML or JSON that holds one `what`; raises `error` with every mistake."""
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
    """An empty file is most likely a slip, so it has to be said what stands for nothing."""
    advice = f": write {{}} for no {what}" if mistake.message == "is empty" else ""
    return replace(mistake, message=f"{mistake.message}{advice}")


def only(part: Part, *names: str) -> None:
    """Note every member that is none of these, and which one may be meant."""
    unknown = ((name, member) for name, member in members(part) if name not in names)
    # To guess takes time, and nobody reads the guesses of a thousand mistakes.
    for name, member in islice(unknown, _GUESSED):
        close = closest_word(name, names)
        hint = f'did you mean "{close}"?' if close else f"expected one of {', '.join(names)}"
        member.wrong(f"unknown key; {hint}")


def members(part: Part) -> list[tuple[str, Part]]:
    """Return each member of an object, null or not: a key without a value is a slip, too."""
    present = dict(part.members())
    written = part.value if isinstance(part.value, dict) else {}
    return [(name, present.get(name, part[name])) for name in written if isinstance(name, str)]
