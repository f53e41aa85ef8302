"""Each name of a type means one thing, so that a reader who knows it once knows it everywhere."""

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
    """The classes and the aliases of types that a module defines; every module has its type variables."""
    for statement in module.body:
        match statement:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name


@pytest.mark.full
def test_type_names_are_unique() -> None:
    modules = defaultdict[str, list[str]](list)
    for package in INSTALLED:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in filter(LIKE_A_TYPE.match, types(parsed(path.read_text()))):
                modules[name].append(str(path.relative_to(ROOT)))

    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
