"""Each name of a type means one thing: a reader who has met it once knows it everywhere."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.syntax import parsed

ROOT = Path(__file__).parents[2]
INSTALLED = ("numalign", "webhook", "scorer", "controller", "kubectl_numa", "agent", "certs", "examples")
LIKE_A_TYPE = re.compile(r"_?[A-Z][a-z]")


def types(module: ast.Module) -> Iterator[str]:
    """The classes and the aliases of types that a module defines."""
    for statement in module.body:
        match statement:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not is_variable(value):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name


def is_variable(value: ast.expr) -> bool:
    """Whether it is a type variable, which every generic module has its own of."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "TypeVar"


def defined() -> dict[str, list[str]]:
    """By name of a type the modules that define one."""
    places = defaultdict[str, list[str]](list)
    for package in INSTALLED:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in types(parsed(path.read_text())):
                places[name].append(str(path.relative_to(ROOT)))
    return {name: modules for name, modules in places.items() if LIKE_A_TYPE.match(name)}


def test_no_name_of_a_type_means_two_things() -> None:
    twice = {name: modules for name, modules in defined().items() if len(modules) > 1}

    assert twice == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class A: ...", ["A"]),
        ("A = int | None", ["A"]),
        ("A: TypeAlias = int", ["A"]),
        ("A = TypeVar('A')", []),
        ("def f():\n    class A: ...", []),
    ],
)
def test_what_counts_as_a_type(source: str, names: list[str]) -> None:
    assert list(types(ast.parse(source))) == names
