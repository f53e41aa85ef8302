"""Mistakes, as a person sees them."""

import pytest

from numalign.model.errors import (
    AND_MORE,
    LONGEST_MESSAGE,
    LONGEST_TEXT,
    LONGEST_WHERE,
    MOST_MISTAKES,
    BadInput,
    Mistake,
)
from tests.worlds.notation import table

WRITTEN = [
    ("without a place, the message alone", Mistake("", "is wrong"),             "is wrong"),
    ("the place comes first", Mistake("spec.cpu", "is wrong"),     "spec.cpu: is wrong"),
    ("a caret is under the place", Mistake("cpu", "is wrong", "4x", 1), "cpu: is wrong\n  4x\n   ^"),
    ("a line break makes no line", Mistake("", "b\nc", "d\ne", 2),      "b\ufffdc\n  d\ufffde\n    ^"),
    ("a caret at the very start", Mistake("cpu", "is wrong", "x4", 0), "cpu: is wrong\n  x4\n  ^"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "text"), table(WRITTEN))
def test_mistake_is_written_with_place_and_caret(mistake: Mistake, text: str) -> None:
    assert str(mistake) == text


@pytest.mark.parametrize(
    ("where", "seen"), table([("a name in it", "cpu", "requests.cpu"), ("the thing itself", "", "requests")])
)
def test_parent_prefixes_its_own_place(where: str, seen: str) -> None:
    assert Mistake(where, "is wrong", "4x", 1).under("requests") == Mistake(seen, "is wrong", "4x", 1)


def test_bad_input_lists_each_mistake_on_a_line() -> None:
    error = BadInput(Mistake(where, "is wrong") for where in ("cpu", "memory"))
    assert [mistake.where for mistake in error.mistakes] == ["cpu", "memory"]
    assert str(error) == "cpu: is wrong\nmemory: is wrong"


HUGE = "x" * 3 * 2**20


def test_mistake_is_bounded() -> None:
    mistake = Mistake(HUGE, HUGE, HUGE, len(HUGE) // 2)
    assert (len(mistake.where), len(mistake.message), len(mistake.text)) == (
        LONGEST_WHERE,
        LONGEST_MESSAGE,
        LONGEST_TEXT,
    )
    assert len(mistake.under(HUGE).where) == LONGEST_WHERE


@pytest.mark.parametrize("at", [0, 1, 90, 150, 5000, 9850, 9998, 9999])
def test_long_text_is_cut_around_the_place(at: int) -> None:
    text = f"{'-' * at}!{'-' * (9999 - at)}"
    mistake = Mistake("x", "is wrong", text, at)
    assert len(mistake.text) <= LONGEST_TEXT
    assert mistake.at is not None
    assert mistake.text[mistake.at] == "!"
    assert mistake.text.startswith("...") is (at > LONGEST_TEXT // 2)
    assert mistake.text.endswith("...") is (at < 9999 - LONGEST_TEXT // 2)


def test_many_mistakes_are_cut_with_a_count() -> None:
    few = tuple(Mistake(str(number), "is wrong") for number in range(MOST_MISTAKES))
    assert BadInput(few).mistakes == few
    many = (Mistake(str(number), "is wrong") for number in range(10**6))
    *listed, last = BadInput(many).mistakes
    assert [mistake.where for mistake in listed] == list(map(str, range(MOST_MISTAKES)))
    assert last is AND_MORE
    assert next(many).where == str(MOST_MISTAKES + 1), "the others are not even looked at"
