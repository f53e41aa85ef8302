"""Levels are counted as a parser counts them, whatever is in the strings and wherever the text ends."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.nesting import DEEPEST, TOO_DEEP, is_too_deep, why_not_json
from tests.worlds.notation import table


def levels(text: bytes) -> int:
    return DEEPEST - max(above for above in range(DEEPEST + 1) if not is_too_deep(text, above))


@pytest.mark.parametrize(("text", "expected"), table([
    ("nothing", b"", 0),
    ("a word", b'"a"', 0),
    ("an empty list", b"[]", 1),
    ("lists side by side", b"[[], [], []]", 2),
    ("a list in an object", b'{"a": [1, {"b": 2}]}', 3),
    ("brackets in a string", b'["[[[", "{", "]]]"]', 1),
    ("a quote in a string", rb'["\"[[[", "\\", ["\\\"["]]', 2),
    ("cut off in a list", b'[[{"a":', 3),
    ("cut off in a string", b'["[[', 1),
    ("no JSON at all", b"]]}}[", 0),
    ("bytes that no text has", b"[\xff\x00[", 2),
]))  # fmt: skip
def test_levels(text: bytes, expected: int) -> None:
    assert levels(text) == expected


TEXTS = st.text('[]{}"\\ax', max_size=5)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def depth(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES, st.sampled_from([None, 1]))
def test_the_levels_of_a_text_are_those_of_its_value(value: object, indent: int | None) -> None:
    assert levels(json.dumps(value, indent=indent).encode()) == depth(value)


@pytest.mark.parametrize("levels", [DEEPEST + 1, 1000, 100_000])
def test_too_deep_nesting_has_its_own_error(levels: int) -> None:
    for text in ("[" * levels, '{"a":' * levels, "[" * levels + "x", '["[",' * levels):
        with pytest.raises(orjson.JSONDecodeError) as raised:
            orjson.loads(text)
        assert why_not_json(text, raised.value) == why_not_json(text.encode(), raised.value) == TOO_DEEP


@pytest.mark.parametrize("text", ["", "[" * DEEPEST, '["' + "[" * 1000, "x", "\ud800"])
def test_another_mistake_keeps_the_words_of_the_parser(text: str) -> None:
    assert why_not_json(text, ValueError("a reason")) == "is not JSON: a reason"
