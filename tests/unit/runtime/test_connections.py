"""Who goes when there are too many."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.connections import (
    NEW_TURNS,
    AcceptedQueue,
    ConnectionGroup,
    ConnectionTable,
)
from numalign.runtime.in_flight import Peer

A, B = Peer("a"), Peer("b")
PROVEN = Peer("p", proven=True)


@dataclass(eq=False)
class Someone:
    peer: Peer
    is_cut: bool = field(default=False)
    unread: bool = field(default=False)

    def waits(self) -> bool:
        return self.unread

    def cut(self) -> None:
        self.is_cut = True


def entered(connections: ConnectionTable, *peers: Peer) -> list[Someone]:
    everyone = [Someone(peer) for peer in peers]
    for each in everyone:
        connections.enter(each)
    return everyone


def cut(everyone: list[Someone]) -> list[int]:
    return [number for number, each in enumerate(everyone) if each.is_cut]


def test_largest_peer_loses_its_longest_idle_connection() -> None:
    assert cut(entered(ConnectionTable(4), B, A, A, A, B)) == [1]
    assert cut(entered(ConnectionTable(4), A, A, B, B, A)) == [0]


def test_one_that_was_used_since_is_kept() -> None:
    connections = ConnectionTable(3)
    everyone = entered(connections, A, A, A)
    connections.work(everyone[0])
    connections.rest(everyone[0])
    entered(connections, B)
    assert cut(everyone) == [1]


def served(connections: ConnectionTable, everyone: list[Someone], calls: int = 1) -> list[Someone]:
    for _ in range(calls):
        for each in everyone:
            connections.serve(each)
    return everyone


@pytest.mark.parametrize("calls", [0, 1], ids=["idle", "once active"])
def test_new_addresses_do_not_evict_an_active_one(calls: int) -> None:
    connections = ConnectionTable(32)
    working = served(connections, entered(connections, *[A] * 12), calls=3)
    for _ in range(20):
        # Each of them holds less, and comes again and again.
        newcomers = entered(connections, *(Peer(str(number)) for number in range(16)))
        served(connections, newcomers, calls=calls)
        served(connections, working)
    assert cut(working) == []


@pytest.mark.parametrize(("unread", "gone"), [(0, [0]), (1, [1]), (4, None)])
def test_one_over_which_a_call_is_coming_is_passed_over(unread: int, gone: list[int] | None) -> None:
    connections = ConnectionTable(4)
    everyone = entered(connections, A, A, B, B)
    for each in everyone[:unread]:
        each.unread = True
    entered(connections, B)
    assert len(connections) == 4
    assert gone in (cut(everyone), None)


def test_idle_connections_of_an_address_go_first() -> None:
    connections = ConnectionTable(16)
    working = served(connections, entered(connections, A, A, A))
    entered(connections, *[A] * 100)
    assert cut(working) == []


@given(st.integers(2, 9), st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60))
def test_new_connection_survives_half_a_turnover(size: int, addresses: list[str]) -> None:
    connections = ConnectionTable(size)
    everyone = [*served(connections, entered(connections, *[Peer("x")] * size))]
    for address in addresses:
        everyone += entered(connections, Peer(address))
        assert not any(each.is_cut for each in everyone[-(size // 2) :])


def test_what_was_served_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numalign.runtime.connections.REMEMBERED", 4)
    connections = ConnectionTable(9)
    served(connections, entered(connections, A))
    assert connections.knows(A)
    served(connections, entered(connections, B), calls=8)
    assert not connections.knows(A)


def test_a_call_that_is_being_handled_is_never_cut() -> None:
    connections = ConnectionTable(2)
    everyone = entered(connections, A, A)
    for each in everyone:
        connections.work(each)
    entered(connections, B)
    assert cut(everyone) == []


def test_the_proven_keep_theirs() -> None:
    connections = ConnectionTable(3)
    first = Someone(A)
    connections.enter(first)
    first.peer = PROVEN
    connections.prove(first)
    later = entered(connections, PROVEN, PROVEN, B, B)
    # Only those that have proven nothing may go, which each is until its certificate was seen.
    assert not first.is_cut
    assert connections.held[ConnectionGroup(PROVEN)] == 3 - len(cut(later[:2]))


def test_zero_sets_no_bound() -> None:
    assert cut(entered(ConnectionTable(0), *[A] * 1000)) == []


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from("ewrlps"), st.integers(0, 9)), max_size=60))
def test_connection_count_stays_right(size: int, steps: list[tuple[str, int]]) -> None:
    displacements = []
    connections = ConnectionTable(size, displaced=lambda: displacements.append(1))
    everyone: list[Someone] = []
    left: set[int] = set()
    for what, which in steps:
        if what == "e" or not everyone:
            everyone += entered(connections, Peer(str(which % 3)))
            continue
        number = which % len(everyone)
        connection = everyone[number]
        if what == "l":
            left.add(number)
        if what == "p" and number not in left and not connection.is_cut:
            connection.peer = PROVEN
        {
            "w": connections.work,
            "r": connections.rest,
            "s": connections.serve,
            "l": connections.leave,
            "p": connections.prove,
        }[what](connection)
    inside = [each for number, each in enumerate(everyone) if number not in left and not each.is_cut]
    assert len(connections) == len(inside) == connections.held.total()
    assert len(displacements) == len(cut(everyone))
    assert not any(each.is_cut and each.peer.proven for each in everyone)


# Who is set up next.


def accepted(connections: ConnectionTable, *peers: Peer) -> tuple[AcceptedQueue[Someone], list[Someone]]:
    queue, everyone = AcceptedQueue[Someone](connections), [Someone(peer) for peer in peers]
    for each in everyone:
        queue.join(each)
    return queue, everyone


def order(queue: AcceptedQueue[Someone]) -> list[str]:
    return [each.peer.address for each in iter(queue.next, None)]


def test_addresses_take_turns() -> None:
    queue, _ = accepted(ConnectionTable(9), A, A, A, B, PROVEN)
    assert order(queue) == ["a", "b", "p", "a", "a"]


def test_unserved_addresses_get_their_turn() -> None:
    connections = ConnectionTable(99)
    served(connections, entered(connections, A))
    queue, _ = accepted(connections, *[A] * 40, B, B)
    turns = order(queue)
    assert turns.count("a") == 40
    assert all("b" in turns[at : at + NEW_TURNS] for at in (0, NEW_TURNS))
    assert turns[: 2 * NEW_TURNS].count("a") == 2 * NEW_TURNS - 2


def test_closed_connections_leave_nothing() -> None:
    connections = ConnectionTable(9)
    served(connections, entered(connections, A))
    queue, everyone = accepted(connections, A, B, A, B)
    for each in everyone[:3]:
        queue.withdraw(each)
        queue.withdraw(each)
    assert (len(queue), order(queue), len(queue)) == (1, ["b"], 0)
