"""Whoever queues little is neither displaced nor delayed by those who queue much."""

from hypothesis import example, given
from hypothesis import strategies as st

from numalign.namespace_queue import NamespaceQueue

MOST = 10


def taken(queue: NamespaceQueue[str, int]) -> list[tuple[str, int]]:
    """All entries, in the order in which they are taken."""
    return [queue.take() for _ in range(len(queue))]


def test_namespaces_take_turns() -> None:
    queue = NamespaceQueue[str, int](MOST)
    for key in ("a1", "a2", "a3", "b1", "c1", "c2"):
        assert queue.put(key[0], key, 0)

    assert [key for key, _ in taken(queue)] == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_equal_key_is_replaced_and_queued_again() -> None:
    queue = NamespaceQueue[str, int](MOST)
    for key, value in (("a1", 1), ("a2", 2), ("a1", 3)):
        assert queue.put("a", key, value)

    assert taken(queue) == [("a2", 2), ("a1", 3)]


@given(st.lists(st.sampled_from("abc"), max_size=60))
@example([*"aaaaaaaaaaaab"])
def test_only_those_with_the_most_entries_lose_any(names: list[str]) -> None:
    queue = NamespaceQueue[str, int](MOST)
    kept = [queue.put(name, f"{name}{at}", at) for at, name in enumerate(names)]

    left = [key[0] for key, _ in taken(queue)]
    assert len(left) == min(len(names), MOST)
    assert kept.count(False) == len(names) - len(left)
    assert len(queue) == 0
    for name in {*names}:
        if left.count(name) < names.count(name):
            assert left.count(name) + 1 >= max(left.count(other) for other in names)
