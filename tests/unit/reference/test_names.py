"""The pages name every annotation, label and event reason that there is, and no other."""

import ast
import re
from itertools import chain

from numalign.kube.decode import kubelet_reports
from numalign.model import intent
from tests.worlds.syntax import parsed, walked
from tools.generate.reference.pages import FOLDER

ROOT = FOLDER.parents[1]
KEY, REASON = re.compile(r"numalign\.io/[a-z-]+"), re.compile(r"NUMA[A-Z][a-z]\w+")
SOURCES = ("numalign", "webhook", "scorer", "controller", "agent")


def first_cells(page: str) -> set[str]:
    """What stands as code in the first column of the tables of a page."""
    return set(re.findall(r"^\| `([^`]+)` \|", (FOLDER / page).read_text(encoding="utf-8"), re.MULTILINE))


def texts(folder: str) -> set[str]:
    """Every text that stands by itself in the sources of a package."""
    sources = (path.read_text() for path in (ROOT / folder).rglob("*.py"))
    constants = (
        node.value for source in sources for node in walked(parsed(source)) if isinstance(node, ast.Constant)
    )
    return {value for value in constants if isinstance(value, str)}


def keys() -> set[str]:
    """Every annotation and label with our prefix."""
    values = chain(vars(intent).values(), vars(kubelet_reports).values())
    return {value for value in values if isinstance(value, str) and KEY.fullmatch(value)}


def test_every_key_has_its_line_and_none_is_made_up() -> None:
    named = first_cells("annotations.md") | first_cells("labels.md")
    assert {name for name in named if KEY.fullmatch(name)} == keys()


def reasons() -> set[str]:
    """Every text in the sources that is written as the reason of an event."""
    return {text for folder in SOURCES for text in texts(folder) if REASON.fullmatch(text)}


def test_page_lists_every_event_reason() -> None:
    taints = {name.partition("=")[0] for name in first_cells("labels.md")}
    assert first_cells("events.md") == reasons() - taints
