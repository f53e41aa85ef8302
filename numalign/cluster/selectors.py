"""
Selectors of labels, as Kubernetes has them, in files that people edit.

One that no label could ever meet, or that is misspelt, would choose nothing in silence, so it is a mistake.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from numalign.cluster import labels
from numalign.cluster.edited import members, only
from numalign.cluster.parts import Part


class Operator(StrEnum):
    """How a label must stand to the values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be, as metav1.LabelSelectorRequirement has it."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it; `NotIn` is met where there is no such label."""
        return _HOLDS[self.operator](labels.get(self.key), self.values)

    def __str__(self) -> str:
        """As kubectl writes it: `tier in (gold,silver)`."""
        return _SHOWN[self.operator].format(key=self.key, values=",".join(sorted(self.values)))


_HOLDS: Mapping[Operator, Callable[[str | None, frozenset[str]], bool]] = MappingProxyType(
    {
        Operator.IN: lambda value, values: value in values,
        Operator.NOT_IN: lambda value, values: value not in values,
        Operator.EXISTS: lambda value, _: value is not None,
        Operator.DOES_NOT_EXIST: lambda value, _: value is None,
    }
)


_SHOWN: Mapping[Operator, str] = MappingProxyType(
    {
        Operator.IN: "{key} in ({values})",
        Operator.NOT_IN: "{key} notin ({values})",
        Operator.EXISTS: "{key}",
        Operator.DOES_NOT_EXIST: "!{key}",
    }
)


def requirements(selector: Part) -> Iterator[Requirement]:
    """What a metav1.LabelSelector asks; its mistakes are noted."""
    only(selector, "matchLabels", "matchExpressions")
    for key, member in members(selector["matchLabels"]):
        value = member.needed().text()
        if member.value is not None:
            yield _possible(member, Requirement(key, Operator.IN, frozenset({value})))
    for part in selector["matchExpressions"].objects():
        yield from _expression(part)


def _expression(part: Part) -> Iterator[Requirement]:
    only(part, "key", "operator", "values")
    key, operator = part["key"].needed_text(), _operator(part["operator"])
    values, wanted = part["values"], operator in {Operator.IN, Operator.NOT_IN}
    if wanted and values.value in (None, []):
        values.wrong(f"are missing: {operator} needs those that are meant")
    texts = frozenset(_texts(values))
    if operator and texts and not wanted:
        values.wrong(f"have no meaning with {operator}: leave them out")
    if key and operator:
        yield _possible(part, Requirement(key, operator, texts))


def _operator(part: Part) -> Operator | None:
    part.needed_text()
    return part.word(Operator)


def _possible(part: Part, made: Requirement) -> Requirement:
    """The same; a mistake, if no label can have such a key or value."""
    if why := labels.impossible(made.key, sorted(made.values)):
        part.wrong(why)
    return made


def _texts(part: Part) -> Iterator[str]:
    # The values of a label may be empty.
    for entry in part.entries():
        if entry.value is None:
            entry.needed()
        yield entry.text()
