"""Who goes when there are too many."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.guests import Guests
from numalign.runtime.overload import Peer

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


def entered(guests: Guests, *peers: Peer) -> list[Someone]:
    everyone = [Someone(peer) for peer in peers]
    for each in everyone:
        guests.enter(each)
    return everyone


def cut(everyone: list[Someone]) -> list[int]:
    return [number for number, each in enumerate(everyone) if each.is_cut]


def test_the_peer_that_holds_most_loses_the_one_that_rests_for_longest() -> None:
    assert cut(entered(Guests(4), B, A, A, A, B)) == [1]
    assert cut(entered(Guests(4), A, A, B, B, A)) == [0]


def test_one_that_was_used_since_is_kept() -> None:
    guests = Guests(3)
    everyone = entered(guests, A, A, A)
    guests.work(everyone[0])
    guests.rest(everyone[0])
    entered(guests, B)
    assert cut(everyone) == [1]


def test_a_call_that_is_being_handled_is_never_cut() -> None:
    guests = Guests(2)
    everyone = entered(guests, A, A)
    for each in everyone:
        guests.work(each)
    entered(guests, B)
    assert cut(everyone) == []


def test_the_proven_keep_theirs() -> None:
    guests = Guests(3)
    first = Someone(A)
    guests.enter(first)
    first.peer = PROVEN
    guests.prove(first)
    later = entered(guests, PROVEN, PROVEN, B, B)
    # Only those that have proven nothing may go, which each is until its certificate was seen.
    assert not first.is_cut
    assert guests.held[PROVEN] == 3 - len(cut(later[:2]))


def test_zero_sets_no_bound() -> None:
    assert cut(entered(Guests(0), *[A] * 1000)) == []


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from("ewrlp"), st.integers(0, 9)), max_size=60))
def test_the_count_is_right_whatever_happens(size: int, steps: list[tuple[str, int]]) -> None:
    told = []
    guests = Guests(size, displaced=lambda: told.append(1))
    everyone: list[Someone] = []
    left: set[int] = set()
    for what, which in steps:
        if what == "e" or not everyone:
            everyone += entered(guests, Peer(str(which % 3)))
            continue
        number = which % len(everyone)
        guest = everyone[number]
        if what == "l":
            left.add(number)
        if what == "p" and number not in left and not guest.is_cut:
            guest.peer = PROVEN
        {"w": guests.work, "r": guests.rest, "l": guests.leave, "p": guests.prove}[what](guest)
    inside = [each for number, each in enumerate(everyone) if number not in left and not each.is_cut]
    assert len(guests) == len(inside) == guests.held.total()
    assert len(told) == len(cut(everyone))
    assert not any(each.is_cut and each.peer.proven for each in everyone)
