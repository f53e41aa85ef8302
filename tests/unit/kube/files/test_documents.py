"""Files of every form that people and kubectl make and edit, and some that were made to hurt."""

import gzip
import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from errno import EISDIR, ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.files import documents
from numalign.kube.files.documents import BadDocument, Document
from tests.worlds.notation import table

POD = {"apiVersion": "v1", "kind": "Pod"}


@pytest.mark.parametrize(("data", "expected"), table([
    ("JSON", b'{"kind": "Pod", "apiVersion": "v1"}', [POD]),
    ("YAML", b"# a pod\nkind: Pod\napiVersion: v1\n", [POD]),
    ("YAML in three documents", b"kind: Pod\napiVersion: v1\n---\n---\n{kind: B}\n", [POD, {"kind": "B"}]),
    ("gzip", gzip.compress(b"kind: Pod\napiVersion: v1"), [POD]),
    ("JSON with a mark", b'\xef\xbb\xbf{"kind": "Pod", "apiVersion": "v1"}', [POD]),
    ("YAML from PowerShell", "\ufeffkind: Pod\napiVersion: v1".encode("utf-16-be"), [POD]),
    ("a merged mapping", b"kind: A\nx: &a {b: 1}\ny: {<<: *a}",
        [{"kind": "A", "x": {"b": 1}, "y": {"b": 1}}]),
    ("dates stay text", b"kind: A\nat: 2026-01-02T03:04:05Z\nbad: 2026-13-45\neq: =",
        [{"kind": "A", "at": "2026-01-02T03:04:05Z", "bad": "2026-13-45", "eq": "="}]),
]))  # fmt: skip
def test_a_file_is_read(data: bytes, expected: list[Any]) -> None:
    assert documents.read(data) == expected


ZIPPED = gzip.compress(b"kind: Pod\n" * 50)
BOMB = b"kind: A\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 9)
)


@pytest.mark.parametrize(("data", "message"), table([
    ("nothing", b"", "is empty"),
    ("space and comments", b" \n# nothing\n---\n", "is empty"),
    ("no kind", b'{"apiVersion": "v1"}', "kind: is missing"),
    ("two and no object",
        b"a\n---\n- b\n",
        'document 1: must be an object, not "a"\ndocument 2: must be an object, not a list',
    ),
    ("JSON cut off", b'{"kind": "List", "items": [', "is not JSON: "),
    ("YAML of Python", b"a: !!python/name:os.system", "is not YAML: "),
    ("YAML with an endless number", b"kind: " + b"9" * 5000, "is not YAML: "),
    ("gzip cut off", ZIPPED[:-12], "is a truncated gzip file"),
    ("gzip with a wrong sum", ZIPPED[:-8] + bytes(8), "is not a valid gzip file: "),
    ("gzip in name only", b"\x1f\x8bhello world", "is not a valid gzip file"),
    ("half a character", b"\xfe\xff\xd8", "is not utf-16 text: "),
    ("a bomb of aliases", BOMB, "expands to more than 1000000 values through its aliases"),
    ("a list in itself", b"kind: List\nitems: &a [*a]", "has the alias *a, which is undefined or r"),
]))  # fmt: skip
def test_broken_files(data: bytes, message: str) -> None:
    with pytest.raises(BadDocument) as raised:
        documents.read(data)
    assert str(raised.value).startswith(message)


def lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


NESTED: dict[str, Callable[[int], bytes]] = {
    "JSON": lambda levels: b'{"kind":"A","x":' + lists(levels - 1) + b"}",
    "JSON cut off": lambda levels: b'{"kind":"A","x":' + b"[" * (levels - 1),
    "an item of a list in JSON": lambda levels: (
        b'{"kind":"List","items":[{"kind":"A"},{"kind":"A","x":' + lists(levels - 3) + b"}]}"
    ),
    "YAML": lambda levels: b"kind: A\nx: " + lists(levels - 1),
    "YAML in lines": lambda levels: b"kind: A\nx:\n- " + b"- " * (levels - 2),
}


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_nesting_is_limited(tmp_path: Path, nested: Callable[[int], bytes]) -> None:
    path = tmp_path / "deep"
    for levels in (101, 1000, 5000):
        path.write_bytes(nested(levels))
        for read in (documents.load, lambda of: list(documents.stream(of))):
            with pytest.raises(BadDocument) as raised:
                read(path)
            assert str(raised.value) == f"{path}: is nested deeper than 100 levels"
    if nested is not NESTED["JSON cut off"]:
        path.write_bytes(nested(100))
        assert documents.load(path)
        assert [document.kind for document in documents.stream(path)][-1] == "A"


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_bytes_of_a_file_are_limited(packed: bool) -> None:  # noqa: FBT001  a parameter of pytest
    plain = b"kind: Pod # " + b"x" * 1000
    data = gzip.compress(plain) if packed else plain
    assert documents.read(data, most=len(plain)) == [{"kind": "Pod"}]
    with pytest.raises(BadDocument, match="has more than 1011 bytes"):
        documents.read(data, most=len(plain) - 1)


@pytest.mark.parametrize(("name", "reason"), [("none.yaml", ENOENT), (".", EISDIR)])
def test_unreadable_files(tmp_path: Path, name: str, reason: int) -> None:
    with pytest.raises(BadDocument, match=f"cannot be read: {strerror(reason)}$"):
        documents.load(tmp_path / name)


def test_a_dash_is_standard_input() -> None:
    assert documents.load("-", stdin=io.BytesIO(b"kind: A")) == [{"kind": "A"}]
    with pytest.raises(BadDocument, match=r"^standard input: is empty$"):
        documents.load("-", stdin=io.BytesIO())


def described(*values: object) -> list[tuple[str, str, str, str]]:
    return [
        (each.group, each.kind, each.where, str(each.trouble or "")) for each in documents.objects(values)
    ]


def as_a_whole(data: bytes) -> tuple[list[Document], str]:
    """The objects of a file that is decoded as a whole, or what is wrong with it."""
    try:
        return list(documents.objects(documents.read(data))), ""
    except BadDocument as error:
        return [], str(error)


def one_by_one(path: Path, data: bytes) -> tuple[list[Document], str]:
    """The same, of a file whose objects are decoded when their turn comes."""
    path.write_bytes(data)
    try:
        return list(documents.stream(path)), ""
    except BadDocument as error:
        return [], str(error).removeprefix(str(path)).lstrip(".: ")


@pytest.mark.parametrize("data", table([
    ("with texts that look like ends", rb'{"kind":"List","items":[{"kind":"A","x":"]}\",{"},{"kind":"B]"}]}'),
    ("with items twice, empty at last", b'{"kind":"List","items":[{"kind":"A"}],"items":[]}'),
    ("in gzip", gzip.compress(b'{"kind":"List","items":[{"kind":"A"}]}')),
    ("in two documents", b'{"kind":"List","items":[{"kind":"A"}]}\n---\n{"kind": "B"}'),
    ("with a comma too many", b'{"kind":"List","items":[{"kind":"A"},]}'),
    ("with NaN", b'{"kind":"List","items":[{"kind":"A"},{"kind":"B","x":NaN}]}'),
    ("with what is no UTF-8", b'{"kind":"List","items":[{"kind":"A"},{"kind":"B\xff"}]}'),
    ("with a huge number", b'{"kind":"List","items":[{"kind":"A","x":' + b"9" * 5000 + b"}]}"),
    ("nested too deep", b'{"kind":"List","items":[{"kind":"A"},' + b"[" * 50_000 + b"]" * 50_000 + b"]}"),
]))  # fmt: skip
def test_a_stream_of_items_equals_the_whole_file(tmp_path: Path, data: bytes) -> None:
    assert one_by_one(tmp_path / "list", data) == as_a_whole(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(VALUES | st.fixed_dictionaries({"kind": st.just("A")}, optional={"x": VALUES}), max_size=4)
MEMBERS = st.permutations([("kind", st.just("List")), ("items", ITEMS), ("metadata", VALUES), ("x", VALUES)])
LISTED = MEMBERS.flatmap(lambda members: st.fixed_dictionaries(dict(members)))


@given(LISTED, st.sampled_from([None, 1]), st.integers(0, 2))
def test_any_stream_of_items_equals_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, listed: object, indent: int | None, cut: int
) -> None:
    text = json.dumps(listed, ensure_ascii=indent is None, indent=indent)
    data = text[: len(text) - cut].encode("utf-8", "surrogatepass")
    assert one_by_one(tmp_path_factory.getbasetemp() / "list", data) == as_a_whole(data)


@pytest.mark.full
def test_a_stream_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "list"
    item = {"kind": "A", "zones": [{"name": f"zone-{number}", "x": [number] * 9} for number in range(20)]}
    path.write_bytes(json.dumps({"kind": "List", "items": [item] * 2000}).encode())
    tracemalloc.start()
    try:
        for _ in documents.stream(path):
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * path.stat().st_size


def test_a_closed_standard_input_is_an_error() -> None:
    read = 'from numalign.kube.files import documents; documents.load("-")'
    ended = subprocess.run(  # noqa: S603  our own words
        ["sh", "-c", f"exec {sys.executable} -c '{read}' <&-"],  # noqa: S607  any shell can close it
        capture_output=True,
        text=True,
        check=False,
    )
    assert "standard input: is closed" in ended.stderr


def test_objects_of_nested_lists() -> None:
    inner = {"kind": "List", "apiVersion": "v1", "items": [{"kind": "Deployment", "apiVersion": "apps/v1"}]}
    outer = {"kind": "List", "apiVersion": "v1", "items": [inner, {"kind": "Node", "apiVersion": "v1"}]}
    assert described(POD, outer) == [
        ("", "Pod", "document", ""),
        ("", "Node", "items[1]", ""),
        ("apps", "Deployment", "items[0].items[0]", ""),
    ]


def test_items_of_a_typed_list_have_its_kind() -> None:
    pods = {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {}}, {"kind": "Other"}]}
    inside = [each.raw for each in documents.objects([pods])]
    assert inside == [{**POD, "metadata": {}}, {"kind": "Other", "apiVersion": "v1"}]


def test_wrong_items_have_their_places() -> None:
    items = [1, {"metadata": {}}, {"kind": "Pod", "apiVersion": 1}]
    wrong = {"kind": "List", "items": "x"}
    assert described({"kind": "List", "items": items}, wrong, {"kind": "List", "items": None}) == [
        ("", "", "items[0]", "must be an object, not a number"),
        ("", "", "items[1]", "kind: is missing"),
        ("", "", "items[2]", "apiVersion: must be a string, not a number"),
        ("", "List", "document", 'items: must be a list, not "x"'),
    ]
