"""Values by name, and what copies of them are."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.named_values import NamedValues, SortedValues


def values(**told: int) -> NamedValues[int]:
    made = NamedValues[int]()
    for name, value in told.items():
        made.put(name, value)
    return made


def test_a_copy_has_all_values() -> None:
    assert values(b=2, c=3, a=1).copy() == {"a": 1, "b": 2, "c": 3}


def test_a_copy_stays_as_it_is() -> None:
    made = values(a=1, b=2)
    before = made.copy()
    made.put("a", 7)
    made.drop("b")

    assert [before, made.copy()] == [{"a": 1, "b": 2}, {"a": 7}]


def test_what_did_not_change_is_not_copied() -> None:
    made = values(a=1)
    before = made.copy()
    made.put("a", before["a"])
    made.drop("b")

    assert made.copy() is before


def test_none_takes_a_value_out_where_it_stands_for_nothing() -> None:
    made = values(a=1, b=2)
    made.set("a", None)
    made.set("c", 3)

    assert made.copy() == {"b": 2, "c": 3}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers())))
def test_sorted_values_are_those_of_a_mapping_in_the_order_of_its_names(
    told: list[tuple[str, int | None]],
) -> None:
    made = SortedValues[int]()
    expected: dict[str, int] = {}
    for name, value in told:
        made.set(name, value)
        expected = {key: each for key, each in {**expected, name: value}.items() if each is not None}

        assert made.copy() == tuple(expected[key] for key in sorted(expected))
