"""CONTRIBUTING.md leads to files and functions that there are."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FOLDERS = re.findall(
    r"`([a-z_]+(?:/[a-z_]+)*)`", PAGE.partition("## The tree")[2].partition("import-linter")[0]
)
PLACES = sorted(set(re.findall(r"`([\w/]+\.py)(?::(\w+))?`", PAGE)))


def names(path: Path) -> set[str]:
    """Everything that a module defines: functions, methods, classes and constants."""
    found = set[str]()
    for statement in ast.walk(ast.parse(path.read_bytes())):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return found


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_every_place_that_is_named_is_there(path: str, name: str) -> None:
    assert not name or name in names(ROOT / path)
    assert (ROOT / path).is_file()


def test_the_map_has_a_line_for_every_folder() -> None:
    packages = {path.parent for path in (ROOT / "numalign").rglob("__init__.py")} - {ROOT / "numalign"}
    programs = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "numalign"}

    assert {str(path.relative_to(ROOT)) for path in packages | programs} <= set(FOLDERS)
