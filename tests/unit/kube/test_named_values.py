"""Values by name, and what copies of them are."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.named_values import NamedValues, SortedValues


def values(**changes: int) -> NamedValues[int]:
    made = NamedValues[int]()
    for name, value in changes.items():
        made.put(name, value)
    return made


def test_a_copy_does_not_change() -> None:
    made = values(a=1, b=2)
    before = made.copy()
    made.put("a", 7)
    made.drop("b")
    assert [before, made.copy()] == [{"a": 1, "b": 2}, {"a": 7}]


def test_equal_values_share_a_copy() -> None:
    made = values(a=1)
    before = made.copy()
    made.put("a", before["a"])
    made.drop("b")
    assert made.copy() is before


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers())))
def test_sorted_values_are_in_the_order_of_their_names(changes: list[tuple[str, int | None]]) -> None:
    made = SortedValues[int]()
    expected: dict[str, int] = {}
    for name, value in changes:
        made.set(name, value)
        expected = {key: each for key, each in {**expected, name: value}.items() if each is not None}
        assert made.copy() == tuple(expected[key] for key in sorted(expected))
