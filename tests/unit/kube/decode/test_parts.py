"""Walking objects of any shape: what is wrong is one mistake with its path, and reads as absent."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from numalign.kube.decode.parts import Part
from numalign.model.errors import AND_MORE, MOST_MISTAKES, BadPod
from numalign.model.intent import Policy
from tests.worlds.notation import table


def messages(part: Part) -> list[str]:
    return [str(mistake) for mistake in part.mistakes]


@pytest.mark.parametrize(("value", "read", "expected", "mistakes"), table([
    # what it is: value, how it is read, what is read, what is messages
    ("an empty text", "", Part.required_text, "", ["x: is empty"]),
    ("a number among texts", {"a": "b", "c/d": 1}, Part.text_map, {"a": "b", "c/d": ""},
        ["x[c/d]: must be a string, not a number"]),
    ("a key that is no text", {1: "b"}, Part.text_map, {},
        ["x.1: the key must be a string: put it in quotes"]),
    ("an integer in a text", "7", Part.integer, 7, []),
    ("a negative integer", -1, Part.integer, -1, ["x: must be at least 0, not -1"]),
    ("a fraction", 1.5, Part.integer, None, ["x: must be a whole number, not a number"]),
    ("digits of another script", "\u0667", Part.integer, None, ['x: must be a whole number, not "\u0667"']),
    ("a very long integer", "9" * 5000, Part.integer, None,
        [f'x: must be a whole number, not "{"9" * 61}..."']),
    ("a text for a switch", "true", Part.boolean, None, ['x: must be true or false, not "true"']),
    ("CPUs", "0-1,3", Part.cpu_list, 0b1011, []),
    ("CPUs in disorder", "3-1", Part.cpu_list, None,
        ['x: "3-1" is not a CPU ID or range, as in 0-3,8']),
    ("amounts", {"cpu": "1500m", "memory": None}, Part.amounts, {"cpu": 1500}, []),
    ("an amount without quotes", {"cpu": 0.1}, Part.amounts, {"cpu": 100}, []),
    ("an infinite amount", {"cpu": float("inf")}, Part.amounts, {},
        [('x.cpu: "inf" is not a quantity: write a number with at most one suffix, like 4, '
                "500m or 16Gi\n  inf\n  ^")]),
]))  # fmt: skip
def test_a_value_is_read(
    value: object, read: Callable[[Part], object], expected: object, mistakes: list[str]
) -> None:
    root = Part({"x": value})
    found = read(root["x"])
    assert (dict(found) if isinstance(expected, dict) else found) == expected  # type: ignore[call-overload]
    assert messages(root) == mistakes


def test_null_is_absent() -> None:
    part = Part({"x": None})["x"]
    assert [part.text(), part.integer(), part.boolean(), part.cpu_list()] == ["", None, None, None]
    assert (dict(part.amounts()), dict(part.text_map()), [*part.objects()], part.mistakes) == ({}, {}, [], [])


def test_a_word_is_one_of_an_enumeration() -> None:
    root = Part({"good": "restricted", "bad": "Restricted", "empty": ""})
    assert root["good"].one_of(Policy) is Policy.RESTRICTED
    assert root["bad"].one_of(Policy) is root["empty"].one_of(Policy) is root["absent"].one_of(Policy) is None
    assert messages(root) == [
        'bad: "Restricted" is not a known value: none, best-effort, restricted, single-numa-node'
    ]


def test_a_path_has_dots_and_brackets() -> None:
    root = Part({"spec": {"containers": [{}, {"limits": {"cpu": "4", "nvidia.com/gpu": "1"}}]}})
    limits = list(root["spec"]["containers"].objects())[1]["limits"]
    assert limits["cpu"].where == "spec.containers[1].limits.cpu"
    assert limits["nvidia.com/gpu"].where == "spec.containers[1].limits[nvidia.com/gpu]"
    assert root.where == ""


def test_wrong_values_are_mistakes_and_then_absent() -> None:
    root = Part({"spec": "words", "list": [{"a": 1}, None, "b", []], "word": "b"})
    spec = root["spec"]
    assert spec["containers"].value is spec["volumes"].value is None
    assert [part.value for part in root["list"].objects()] == [{"a": 1}]
    assert list(root["word"].elements()) == list(root["absent"].elements()) == []
    assert messages(root) == [
        'spec: must be an object, not "words"',
        "list[1]: must be an object, not null",
        'list[2]: must be an object, not "b"',
        "list[3]: must be an object, not a list",
        'word: must be a list, not "b"',
    ]


def test_unknown_members_are_mistakes() -> None:
    root = Part({"a": 1, "c": None, "d": 2, "word": "b"})
    root.only(("a", "b", "word"))
    root["word"].only(())
    assert messages(root) == [
        "d: is not a known field: expected one of a, b, word",
        'word: must be an object, not "b"',
    ]


def test_all_mistakes_are_raised_together() -> None:
    root = Part({"a": None})
    root.raise_mistakes(BadPod)
    root["a"].required()
    root["b"].wrong("is odd")
    with pytest.raises(BadPod) as raised:
        root.raise_mistakes(BadPod)
    assert str(raised.value) == "a: is missing\nb: is odd"


HUGE = "x" * 3 * 2**20
MANY = 10**5


def unknown_members(part: Part) -> Iterator[str]:
    for name, member in part.members():
        member.wrong("is not known")
        yield name


@pytest.mark.parametrize(("value", "walk"), table([
    # what it is: many that are wrong, how they are unknown_members
    ("elements that are no objects", [1] * MANY, Part.objects),
    ("keys that are no texts", dict.fromkeys(range(MANY)), Part.members),
    ("unknown members", dict.fromkeys(map(str, range(MANY)), 1), unknown_members),
]))  # fmt: skip
def test_reading_stops_after_most_mistakes(value: object, walk: Callable[[Part], Iterable[object]]) -> None:
    root = Part({"x": value})
    given = sum(1 for _ in walk(root["x"]))
    assert given <= MOST_MISTAKES + 1
    assert len(root.mistakes) == MOST_MISTAKES + 1
    with pytest.raises(BadPod) as caught:
        root.raise_mistakes(BadPod)
    assert caught.value.mistakes[-1] is AND_MORE


@pytest.mark.parametrize("name", [HUGE, f"{HUGE}/y", "/" * 10_000])
def test_a_name_of_megabytes_is_cut_in_its_path(name: str) -> None:
    assert len(Part({name: 1})[name].where) < 100
