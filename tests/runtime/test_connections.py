"""Who goes when there are too many."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.connections import ConnectionTable
from numalign.runtime.in_flight import Peer

A, B = Peer("a"), Peer("b")
PROVEN = Peer("p", proven=True)


@dataclass(eq=False)
class Someone:
    """A connection that can be cut."""

    peer: Peer
    is_cut: bool = field(default=False)

    def cut(self) -> None:
        """It is over."""
        self.is_cut = True


def entered(connections: ConnectionTable, *peers: Peer) -> list[Someone]:
    everyone = [Someone(peer) for peer in peers]
    for each in everyone:
        connections.enter(each)
    return everyone


def cut(everyone: list[Someone]) -> list[int]:
    return [number for number, each in enumerate(everyone) if each.is_cut]


def test_the_peer_that_holds_most_loses_the_one_that_rests_for_longest() -> None:
    assert cut(entered(ConnectionTable(4), B, A, A, A, B)) == [1]
    assert cut(entered(ConnectionTable(4), A, A, B, B, A)) == [0]


def test_one_that_was_used_since_is_kept() -> None:
    connections = ConnectionTable(3)
    everyone = entered(connections, A, A, A)
    connections.work(everyone[0])
    connections.rest(everyone[0])
    entered(connections, B)
    assert cut(everyone) == [1]


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
    assert connections.held[PROVEN] == 3 - len(cut(later[:2]))


def test_zero_sets_no_bound() -> None:
    assert cut(entered(ConnectionTable(0), *[A] * 1000)) == []


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from("ewrlp"), st.integers(0, 9)), max_size=60))
def test_the_count_is_right_whatever_happens(size: int, steps: list[tuple[str, int]]) -> None:
    told = []
    connections = ConnectionTable(size, displaced=lambda: told.append(1))
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
        {"w": connections.work, "r": connections.rest, "l": connections.leave, "p": connections.prove}[what](
            connection
        )
    inside = [each for number, each in enumerate(everyone) if number not in left and not each.is_cut]
    assert len(connections) == len(inside) == connections.held.total()
    assert len(told) == len(cut(everyone))
    assert not any(each.is_cut and each.peer.proven for each in everyone)
