"""
The table of docs/reference/admission.md: what it says that each program answers, and what one answered.

An answer is written as the page writes it, so that the two can be compared as they are.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.laws.states.machines import Json

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "admission.md"

NONE, NO_NODE = "none", "-"

_HEADING = "## Answers by cluster state"
_ROW = re.compile(r"^\| ([a-z-]+) \| [A-Z][^|]* \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_CLASSES = {"2x24cpu-2gpu": "small", "2x48cpu-3gpu": "rebuilt"}
_CLASS = re.compile("|".join(_CLASSES))
_FRAME = re.compile(r"^node\(s\) | \(numalign[^)]*\)$")


@dataclass(frozen=True, slots=True)
class Row:
    """The answers in one state, as the page has them."""

    excluded: str
    webhook: str
    scorer: str


@cache
def rows() -> Mapping[str, Row]:
    """Every row of the table, by the name of its state."""
    section = PAGE.read_text().partition(_HEADING)[2]
    return {name: Row(*answers) for name, *answers in _ROW.findall(section)}


def quotes(cell: str, answer: str) -> bool:
    """Whether a cell quotes an answer in full; `...` in the cell stands for anything."""
    return re.fullmatch(".+".join(map(re.escape, cell.split("..."))), answer) is not None


def excluded_classes(mutated: Json) -> str:
    """The classes that a patch keeps the pod from."""
    written = mutated.get("auditAnnotations", {}).get("classes", "")
    return " and ".join(_CLASSES[each] for each in _CLASS.findall(written)) or NONE


def webhook_answer(validated: Json) -> str:
    """The verdict of a validation, with its text."""
    if not validated["allowed"]:
        return _coded("denied", validated["status"]["message"])
    return "; ".join(_coded("warning", each) for each in validated.get("warnings", [])) or "admitted"


def scorer_answer(nodes: Iterable[Json], names: Iterable[str]) -> str:
    """What was answered about the nodes of these names, which are all alike."""
    answers = {_of_node(each) for each in nodes if each["name"] in names}
    return "; ".join(sorted(answers)) or NO_NODE


def _of_node(node: Json) -> str:
    if node["fits"]:
        return "fits"
    return _coded("never" if node["permanent"] else "not now", _FRAME.sub("", node["reason"]))


def _coded(verdict: str, text: str) -> str:
    return f"{verdict}: `{text.removeprefix('numalign: ')}`"
