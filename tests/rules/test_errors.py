"""Mistakes, as a person sees them."""

import pytest

from numalign.rules.errors import BadInput, BadIntent, BadPod, BadQuantity, BadTopology, Mistake
from tests.notation import table

SAYS = [
    ("without a place, the message alone", Mistake("", "is wrong"),             "is wrong"),
    ("the place comes first",              Mistake("spec.cpu", "is wrong"),     "spec.cpu: is wrong"),
    ("a caret stands under the place",     Mistake("cpu", "is wrong", "4x", 1), "cpu: is wrong\n  4x\n   ^"),
    ("a caret at the very start",          Mistake("cpu", "is wrong", "x4", 0), "cpu: is wrong\n  x4\n  ^"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "text"), table(SAYS))
def test_a_mistake_in_words(mistake: Mistake, text: str) -> None:
    assert str(mistake) == text


@pytest.mark.parametrize(
    ("where", "seen"),
    table([("a name in it", "cpu", "requests.cpu"), ("the thing itself", "", "requests")]),
)
def test_a_parent_puts_its_own_place_before(where: str, seen: str) -> None:
    assert Mistake(where, "is wrong", "4x", 1).under("requests") == Mistake(seen, "is wrong", "4x", 1)


def test_bad_input_tells_all_its_mistakes_each_on_its_line() -> None:
    error = BadInput(Mistake(where, "is wrong") for where in ("cpu", "memory"))

    assert [mistake.where for mistake in error.mistakes] == ["cpu", "memory"]
    assert str(error) == "cpu: is wrong\nmemory: is wrong"


@pytest.mark.parametrize("kind", [BadQuantity, BadIntent, BadPod, BadTopology])
def test_a_door_catches_every_kind_as_bad_input(kind: type[BadInput]) -> None:
    with pytest.raises(BadInput, match="is wrong"):
        raise kind([Mistake("", "is wrong")])
