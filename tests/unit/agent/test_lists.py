"""A list says the same, read item by item and as a whole."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.lists import ITEMS, NoList, members

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
LISTS = st.fixed_dictionaries(
    {ITEMS: st.lists(JSON, max_size=4)}, optional={"kind": st.text(max_size=5), "metadata": JSON}
)


def whole(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {ITEMS: []}
    for name, value in members(body):
        if name == ITEMS:
            found[ITEMS].append(value)
        else:
            found[name] = value
    return found


@given(LISTS, st.sampled_from([None, 2]))
def test_list_equals_json(listed: dict[str, Any], indent: int | None) -> None:
    assert whole(json.dumps(listed, indent=indent).encode()) == listed


@given(LISTS, st.data())
def test_what_is_cut_off_is_no_list(listed: dict[str, Any], data: st.DataObject) -> None:
    body = json.dumps(listed).encode()
    with pytest.raises(NoList):
        whole(body[: data.draw(st.integers(0, len(body) - 1))])


INVALID = [
    b"[]", b'"items"', b'{"items": [1,]}', b'{"items": [1 2]}', b'{"items": [],}', b'{"items" []}',
    b'{"items": []} more', b'{"items": [\xff]}',
]  # fmt: skip


@pytest.mark.parametrize("body", INVALID, ids=[str(body[:20]) for body in INVALID])
def test_invalid_list_raises(body: bytes) -> None:
    with pytest.raises(NoList):
        whole(body)


def test_too_deep_nesting_is_refused() -> None:
    with pytest.raises(NoList, match="is nested deeper than"):
        whole(b'{"items": [' + b"[" * 100_000)


def test_only_one_item_is_there_at_a_time() -> None:
    item = {"env": [{"name": f"n{number}", "value": "v"} for number in range(5_000)]}
    body = json.dumps({ITEMS: [item] * 20}).encode()

    def peak(of: bytes) -> int:
        tracemalloc.start()
        for _ in members(of):
            pass
        most = tracemalloc.get_traced_memory()[1] - len(of)
        tracemalloc.stop()
        return most

    assert peak(body) < 3 * peak(json.dumps({ITEMS: [item]}).encode())
