"""What was found out goes on from moment to moment, and no further than it may."""

import gc
import weakref
from dataclasses import replace

import numpy as np

from numalign.cache import Question
from numalign.cache.found import Able, Found, Placed, Places, Room
from numalign.model.constraints import ANYWHERE
from tests.notation import asks, means, node


def question(cpus: int) -> Question:
    return Question(asks(f"cpu={cpus} mem=1Gi"), means("restricted"))


def placed(cpus: int) -> Placed:
    return question(cpus), ANYWHERE


def room(cpus: int, at: int = 0) -> Room:
    return Room(placed(cpus), Places((0, at), (0, 0), (0, 0)), None, np.zeros(3, dtype=np.bool_))


def test_what_was_found_is_kept() -> None:
    found: Found[Question, Able] = Found(4)
    kept = Able(question(1), (0, 7), np.array([True]), np.array([False]))

    assert found.put(kept) is kept
    assert found.of(question(1)) is kept
    assert found.of(question(2)) is None


def test_the_next_moment_begins_with_it() -> None:
    found: Found[Placed, Room] = Found(4)
    found.put(room(1))
    following = found.following()
    found.put(room(2))

    # What is found until somebody asks is taken over as well.
    assert [following.of(placed(1)), following.of(placed(2))] == [room(1), room(2)]


def test_what_the_next_moment_finds_is_its_own() -> None:
    found: Found[Placed, Room] = Found(4)
    found.put(room(1))
    following = found.following()
    following.put(room(1, at=9))
    following.put(room(2))

    assert [found.of(placed(1)), found.of(placed(2))] == [room(1), None]
    assert following.of(placed(1)) == room(1, at=9)


def test_moments_that_nobody_asks_do_not_become_a_chain() -> None:
    found: Found[Placed, Room] = Found(4)
    found.put(room(1))
    between = found.following()
    gone = weakref.ref(between)
    last = between.following()
    del between
    gc.collect()

    assert gone() is None
    assert last.of(placed(1)) == room(1)


def test_what_nobody_asked_for_lately_goes_first() -> None:
    found: Found[Placed, Room] = Found(2)
    for cpus in (1, 2):
        found.put(room(cpus))
    found.of(placed(1))
    following = found.following()
    following.put(replace(room(3), witness=node("cpu=4")))

    assert [following.of(placed(cpus)) is None for cpus in (1, 2, 3)] == [False, True, False]
