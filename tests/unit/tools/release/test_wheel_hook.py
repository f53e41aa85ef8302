"""What the wheel changes in a file: names of modules that it moves, and nothing else."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.release.wheel_hook import ImmovableError, moved, moved_modules, rewritten

ROOT = Path(__file__).parents[4]
MOVES = {"webhook": "numalign.webhook", "certs": "numalign.certs"}


def change(source: str) -> str:
    return rewritten(source.encode(), MOVES, where="file.py").decode()


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("from webhook import review", "from numalign.webhook import review"),
        (
            "from webhook.review import read as r, Review",
            "from numalign.webhook.review import read as r, Review",
        ),
        ("from webhook.review import (\n    read,\n)", "from numalign.webhook.review import (\n    read,\n)"),
        ("import webhook.review as review", "import numalign.webhook.review as review"),
        ("import os, webhook as w, certs as c", "import os, numalign.webhook as w, numalign.certs as c"),
        ("é = 1; from certs import x", "é = 1; from numalign.certs import x"),
        ("def f():\n\tfrom certs import x", "def f():\n\tfrom numalign.certs import x"),
    ],
)
def test_imports_of_what_is_moved_follow_it(line: str, becomes: str) -> None:
    assert change(line) == becomes


@pytest.mark.parametrize(
    "line",
    [
        "from numalign.webhook import x",
        "from numalign import certs",
        "from . import webhook",
        "from .webhook import x",
        "import webhooks as w",
        "webhook = certs = 1",
        'kind = "webhook"',
        'text = "from webhook import x"',
        '"""See webhook.review."""',
        'name = "webhook.numalign.io/certs"',
        "# from webhook import x",
    ],
)
def test_all_else_stays_as_it_is(line: str) -> None:
    assert change(line) == line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import webhook", "file.py:1: the wheel moves webhook: write `import webhook as ...`"),
        ("\nimport webhook.review", "file.py:2: the wheel moves webhook.review"),
        ("from \\\n  webhook import x", "file.py:1: write the import of webhook on one line"),
        ("run('-m', 'webhook.daemon')", "file.py:1: the text 'webhook.daemon' names a module"),
    ],
)
def test_what_cannot_be_rewritten_ends_the_build(line: str, says: str) -> None:
    with pytest.raises(ImmovableError, match=re.escape(says)):
        change(line)


def test_object_references_follow() -> None:
    assert moved("webhook.__main__:main", MOVES) == "numalign.webhook.__main__:main"
    assert moved("numalign.curves:webhook", MOVES) == "numalign.curves:webhook"


def test_sources_are_read_as_hatchling_gives_them() -> None:
    assert moved_modules({"webhook/": "numalign/webhook/"}) == {"webhook": "numalign.webhook"}


def wheel() -> dict[str, dict[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    target: dict[str, dict[str, str]] = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return target


def test_every_package_but_one_is_moved_below_it() -> None:
    packages = [*wheel()["packages"]]
    assert wheel()["sources"] == {name: f"numalign/{name}" for name in packages if name != "numalign"}
    assert [name for name in wheel()["sources"] if (ROOT / "numalign" / name).exists()] == []


def test_every_installed_file_differs_only_in_names_of_modules() -> None:
    moves = moved_modules(wheel()["sources"])
    files = [path for name in wheel()["packages"] for path in (ROOT / name).rglob("*.py")]
    assert len(files) > 400
    assert [path for path in files if not is_the_same(path.read_bytes(), moves)] == []


def is_the_same(source: bytes, moves: dict[str, str]) -> bool:
    """Whether a file is as it was once the names of modules are put back, line by line."""
    installed = rewritten(source, moves, where="")
    if installed == source:
        return True
    lines_are = installed.count(b"\n") == source.count(b"\n")
    return lines_are and ast.dump(Back().visit(ast.parse(installed))) == ast.dump(ast.parse(source))


class Back(ast.NodeTransformer):
    """Undoes what the wheel does, on what Python reads and not on text."""

    def __init__(self) -> None:
        self.moved = {new: old for old, new in moved_modules(wheel()["sources"]).items()}

    def _name(self, name: str) -> str:
        first, second, *rest = [*name.split("."), ""]
        old = self.moved.get(f"{first}.{second}")
        return ".".join(filter(None, [old, *rest])) if old else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """The statement with its module as the tree names it."""
        node.module = node.module and self._name(node.module)
        return node

    def visit_alias(self, node: ast.alias) -> ast.alias:
        """The module as the tree names it."""
        node.name = self._name(node.name)
        return node


names = st.sampled_from(["webhook", "certs", "numalign", "os", "webhooks"])
paths = st.lists(st.sampled_from(["a", "webhook", "b_2"]), max_size=2)


@given(st.lists(st.tuples(names, paths, st.booleans()), min_size=1, max_size=6))
def test_to_rewrite_twice_changes_nothing_more(imports: list[tuple[str, list[str], bool]]) -> None:
    lines = [
        f"from {'.'.join([top, *rest])} import x" if several else f"import {'.'.join([top, *rest])} as y"
        for top, rest, several in imports
    ]
    once = change("\n".join(lines))
    assert change(once) == once
    assert {line.split()[1].partition(".")[0] for line in once.splitlines()}.isdisjoint(MOVES)
