"""The wheel changes only the names of modules that it moves."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tools.release.wheel_hook import ImmovableError, moved, moved_modules, rewritten

ROOT = Path(__file__).parents[4]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
MOVES = {"webhook": "numalign.webhook", "certs": "numalign.certs"}


def change(source: str) -> str:
    return rewritten(source.encode(), MOVES, where="file.py").decode()


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("from webhook.review import (\n    read,\n)", "from numalign.webhook.review import (\n    read,\n)"),
        ("import os, webhook as w, certs as c", "import os, numalign.webhook as w, numalign.certs as c"),
        ("é = 1; from certs import x", "é = 1; from numalign.certs import x"),
    ],
)
def test_imports_of_moved_modules_are_rewritten(line: str, becomes: str) -> None:
    assert change(line) == becomes
    assert change(becomes) == becomes


@pytest.mark.parametrize(
    "line",
    [
        "from . import webhook",
        "from .webhook import x",
        "import webhooks as w",
        'kind = "webhook"; text = "from webhook import x"',
        'name = "webhook.numalign.io/certs"',
    ],
)
def test_other_lines_are_unchanged(line: str) -> None:
    assert change(line) == line


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("import webhook", "file.py:1: the wheel moves webhook: write `import webhook as ...`"),
        ("\nimport webhook.review", "file.py:2: the wheel moves webhook.review"),
        ("from \\\n  webhook import x", "file.py:1: write the import of webhook on one line"),
        ("run('-m', 'webhook.daemon')", "file.py:1: the text 'webhook.daemon' names a module"),
    ],
)
def test_name_that_cannot_be_rewritten_ends_the_build(line: str, error: str) -> None:
    with pytest.raises(ImmovableError, match=re.escape(error)):
        change(line)


def test_console_scripts_of_moved_packages_are_rewritten() -> None:
    assert WHEEL["sources"] == {name: f"numalign/{name}" for name in WHEEL["packages"] if name != "numalign"}
    assert moved("webhook.__main__:main", MOVES) == "numalign.webhook.__main__:main"
    assert moved("numalign.curves:webhook", MOVES) == "numalign.curves:webhook"


def test_files_of_the_tree_differ_in_imports_alone() -> None:
    moves = moved_modules(WHEEL["sources"])
    files = [path for name in WHEEL["packages"] for path in (ROOT / name).rglob("*.py")]
    assert len(files) > 400
    for path in files:
        source = path.read_bytes()
        installed = rewritten(source, moves, where=str(path))
        assert installed.count(b"\n") == source.count(b"\n")
        assert without_imports(installed) == without_imports(source)


def without_imports(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.module = ""
        if isinstance(node, ast.alias):
            node.name = ""
    return ast.dump(tree)
