"""YAML that is nested too deep is told in our words, whatever limit the parser has."""

from collections.abc import Callable

import pytest
import yaml

from numalign.runtime import yaml_events
from numalign.runtime.nesting import DEEPEST, TOO_DEEP
from numalign.runtime.yaml_events import NestedTooDeep, why_not_yaml
from tests.worlds.notation import table

Nested = Callable[[int], str]

NESTED: list[tuple[str, Nested]] = [
    ("lists in brackets", lambda levels: "[" * levels + "]" * levels),
    ("lists in brackets that stay open", lambda levels: "[" * levels),
    ("lists in brackets, in lines", lambda levels: "[\n" * levels + "]" * levels),
    ("lists after characters of several bytes", lambda levels: "# äöü😀\r\n" + "[" * levels + "]" * levels),
    ("lists in a second document", lambda levels: "[a]\n---\n" + "[" * levels + "]" * levels),
    ("mappings in braces", lambda levels: "{a: " * levels + "}" * levels),
    ("lists in lines", lambda levels: "- " * levels + "x"),
    ("mappings in lines", lambda levels: "".join(f"{' ' * level}a:\n" for level in range(levels))),
    ("mappings as keys", lambda levels: "? " * levels),
]


def events(text: str) -> list[yaml.Event]:
    return list(yaml_events.read(text.encode()))


@pytest.mark.parametrize("nested", table(NESTED))
@pytest.mark.parametrize("levels", [DEEPEST + 1, 1000, 3000])
def test_too_deep_nesting_is_refused(nested: Nested, levels: int) -> None:
    with pytest.raises(NestedTooDeep, match=f"^{TOO_DEEP}$"):
        events(nested(levels))


@pytest.mark.parametrize("nested", table([case for case in NESTED if "stay open" not in case[0]]))
def test_the_deepest_level_is_read(nested: Nested) -> None:
    starts = [isinstance(event, yaml.CollectionStartEvent) for event in events(nested(DEEPEST))]
    assert sum(starts) in {DEEPEST, DEEPEST + 1}


@pytest.mark.parametrize("text", table([
    ("an open bracket", "a: 1\nb: ["),
    ("the deepest open bracket", "a: 1\nb: " + "[" * (DEEPEST - 1)),
    ("brackets in a string", 'a: 1\nb: "' + "[" * 1000),
    ("brackets in a comment", "a: 1\nb: [ # " + "[" * 1000),
]))  # fmt: skip
def test_other_mistake_has_its_place(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as raised:
        events(text)
    said = why_not_yaml(raised.value)
    assert said.startswith("is not YAML: ")
    assert "(line " in said


def test_a_mistake_without_words_has_ours() -> None:
    assert why_not_yaml(ValueError("two\n  lines")) == "is not YAML: two lines"
    assert why_not_yaml(ValueError()) == "is not YAML: a value does not fit its tag"
