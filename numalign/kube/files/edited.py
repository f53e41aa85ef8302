"""
Files that people edit: one YAML document each, for a whole cluster.

An error in such a file must neither stop a running program nor be applied in part. So it is read as a whole
or not at all, and all mistakes are reported at once, each with its place; an unknown key is nearly always
misspelt, and a selector that no label could match would silently select nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TypeVar

from numalign.kube.decode import label_syntax
from numalign.kube.decode.parts import Part
from numalign.kube.files import documents
from numalign.model.constraints import Operator, Requirement
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
        advice = f"is empty: write {{}} for no {what}"
        raise error(
            replace(mistake, message=advice) if mistake.message == "is empty" else mistake
            for mistake in raised.mistakes
        ) from raised
    if len(values) > 1:
        raise error([Mistake("", f"contains {len(values)} documents: a {what} is a single one")])
    part = Part(values[0])
    decoded = decode(part)
    part.raise_mistakes(error)
    return decoded


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


class LabelOperator(StrEnum):
    """The operators of a metav1.LabelSelector, which does not compare numbers."""

    IN = Operator.IN.value
    NOT_IN = Operator.NOT_IN.value
    EXISTS = Operator.EXISTS.value
    DOES_NOT_EXIST = Operator.DOES_NOT_EXIST.value


def requirements(selector: Part) -> Iterator[Requirement]:
    """Yield the requirements of a metav1.LabelSelector; its mistakes are noted."""
    only(selector, "matchLabels", "matchExpressions")
    for key, member in members(selector["matchLabels"]):
        value = member.required().text()
        if member.value is not None:
            yield _possible(member, Requirement(key, Operator.IN, frozenset({value})))
    for part in selector["matchExpressions"].objects():
        only(part, "key", "operator", "values")
        key, word, values = part["key"].required_text(), part["operator"], part["values"]
        word.required_text()
        known = word.one_of(LabelOperator)
        wanted = known in {LabelOperator.IN, LabelOperator.NOT_IN}
        if wanted and values.value in (None, []):
            values.wrong(f"are missing: {known} requires them")
        # The values of a label may be empty.
        texts = frozenset(entry.required().text() for entry in values.elements())
        if known and texts and not wanted:
            values.wrong(f"cannot be used with {known}: remove them")
        if key and known:
            yield _possible(part, Requirement(key, Operator(known.value), texts))


def _possible(part: Part, requirement: Requirement) -> Requirement:
    """Return the same; note a mistake if no label can have such a key or value."""
    if why := label_syntax.impossible(requirement.key, sorted(requirement.values)):
        part.wrong(why)
    return requirement
