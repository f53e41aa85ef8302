"""
Label selectors, as in Kubernetes, in files that people edit.

A selector that no label could match, or that is misspelt, would silently select nothing, so it is a mistake.
"""

from collections.abc import Iterator
from enum import StrEnum

from numalign.kube.decode import label_syntax
from numalign.kube.decode.parts import Part
from numalign.kube.files.edited import members, only
from numalign.model.constraints import Operator, Requirement


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
        yield from _expression(part)


def _expression(part: Part) -> Iterator[Requirement]:
    only(part, "key", "operator", "values")
    key, operator = part["key"].required_text(), _operator(part["operator"])
    values, wanted = part["values"], operator in {Operator.IN, Operator.NOT_IN}
    if wanted and values.value in (None, []):
        values.wrong(f"are missing: {operator} requires them")
    texts = frozenset(_texts(values))
    if operator and texts and not wanted:
        values.wrong(f"cannot be used with {operator}: remove them")
    if key and operator:
        yield _possible(part, Requirement(key, operator, texts))


def _operator(part: Part) -> Operator | None:
    part.required_text()
    word = part.one_of(LabelOperator)
    return Operator(word.value) if word else None


def _possible(part: Part, requirement: Requirement) -> Requirement:
    """Return the same; note a mistake if no label can have such a key or value."""
    if why := label_syntax.impossible(requirement.key, sorted(requirement.values)):
        part.wrong(why)
    return requirement


def _texts(part: Part) -> Iterator[str]:
    # The values of a label may be empty.
    for entry in part.elements():
        if entry.value is None:
            entry.required()
        yield entry.text()
