"""Namespaces with few entries are neither displaced nor delayed by those with many."""

from hypothesis import example, given
from hypothesis import strategies as st

from numalign.namespace_queue import NamespaceQueue

MOST = 10


def test_namespaces_take_turns_and_a_new_entry_waits_anew() -> None:
    queue = NamespaceQueue[str, int](MOST)
    for value, key in enumerate(("a1", "a2", "a3", "b1", "c1", "c2", "a1")):
        assert queue.put(key[0], key, value)

    assert [queue.take() for _ in range(len(queue))] == [
        *[("a2", 1), ("b1", 3), ("c1", 4), ("a3", 2), ("c2", 5), ("a1", 6)]
    ]


@given(st.lists(st.sampled_from("abc"), max_size=60))
@example([*"aaaaaaaaaaaab"])
def test_only_namespaces_with_most_entries_lose_any(names: list[str]) -> None:
    queue = NamespaceQueue[str, int](MOST)
    stored = [queue.put(name, f"{name}{at}", at) for at, name in enumerate(names)]

    remaining = [queue.take()[0][0] for _ in range(len(queue))]
    assert len(remaining) == min(len(names), MOST)
    assert stored.count(False) == len(names) - len(remaining)
    for name in {*names}:
        if remaining.count(name) < names.count(name):
            assert remaining.count(name) + 1 >= max(remaining.count(other) for other in names)
