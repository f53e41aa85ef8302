"""Files that people edit; what can be wrong inside one is in the tests of policy files."""

from errno import ENOENT
from os import strerror
from pathlib import Path

import pytest

from numalign.kube.decode.parts import Part
from numalign.kube.files import edited
from numalign.model.errors import BadInput, Mistake
from tests.worlds.notation import table
from tests.worlds.objects import mistakes


class BadMenu(BadInput):
    """What these tests raise."""


def menu(part: Part) -> str:
    edited.only(part, "dish", "price")
    return part["dish"].required_text()


def parse(data: bytes) -> str:
    return edited.parse(data, menu, what="menu", error=BadMenu)


@pytest.mark.parametrize(("data", "expected"), table([
    # what is wrong            the file                   every mistake
    ("it is empty",            b"",                       ["is empty: write {} for no menu"]),
    ("it has two documents",   b"dish: a\n---\n{}",       ["contains 2 documents: a menu is a single one"]),
    ("it is too large",        b"#" * (2**20 + 1),        ["has more than 1048576 bytes"]),
    ("all that is wrong",      b"dsh: a\npirce:",         ['dsh: unknown key; did you mean "dish"?',
        'pirce: unknown key; did you mean "price"?', "dish: is missing"]),
]))  # fmt: skip
def test_a_document_is_refused_if(data: bytes, expected: list[str]) -> None:
    assert mistakes(BadMenu, parse, data) == expected


def test_mistakes_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "menu.yaml"
    path.write_text("dish: 1\n", encoding="utf-8")
    with pytest.raises(BadMenu, match=r"menu\.yaml: dish: must be a string, not a number$"):
        edited.read(path, parse, error=BadMenu)


def test_unreadable_files(tmp_path: Path) -> None:
    none = tmp_path / "none"
    for path, message in ((tmp_path, "is not a regular file"), (none, f"cannot be read: {strerror(ENOENT)}")):
        with pytest.raises(BadMenu) as raised:
            edited.read(path, parse, error=BadMenu)
        assert raised.value.mistakes == (Mistake(f"{path}", message),)


def test_mistakes_of_keys_are_limited() -> None:
    part = Part({f"dish-{number}": 1 for number in range(1000)})
    edited.only(part, "dish")
    assert len(part.mistakes) == 16
