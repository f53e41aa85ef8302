"""Equal values become one, and what is only alike does not."""

import gc
import weakref

from numalign.model.node import Zone
from numalign.model.resources import Resources
from numalign.model.sharing import REMEMBERED, shared
from tests.notation import node, zone


def test_the_first_of_equal_values_stands_for_all() -> None:
    first, second = zone("cpu=7 mem=77Gi"), zone("cpu=7 mem=77Gi")
    assert first is not second

    assert shared(first) is first
    assert shared(second) is first


def test_values_of_different_types_stay_apart() -> None:
    assert [type(shared(each)) for each in (True, 1, 1.0, "1")] == [bool, int, float, str]


class Traced(Resources):
    """A bag whose end can be seen."""


def test_what_was_met_long_ago_is_forgotten() -> None:
    bag = Traced({"cpu": 3})
    gone = weakref.ref(bag)
    shared(bag)
    del bag
    for number in range(REMEMBERED):
        shared(Resources({"cpu": 10**6 + number}))
    gc.collect()

    assert gone() is None


def test_nodes_of_one_model_share_what_is_equal() -> None:
    one, other = (node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="restricted") for _ in range(2))

    assert (one.ids, one.devices, one.hinting) == (other.ids, other.devices, other.hinting)
    assert one.ids is other.ids
    assert one.devices is other.devices
    assert one.hinting is other.hinting


def test_what_is_empty_already_is_its_own_empty_self() -> None:
    empty = node("cpu=8 mem=8Gi gpu=1")
    used = node("cpu=8/8/3 mem=8Gi gpu=1")

    assert empty.emptied() is empty
    assert used.emptied() == empty
    assert used.zones[0].emptied().free == used.zones[0].allocatable


def test_a_zone_with_memory_in_use_is_not_empty_though_nothing_is_missing() -> None:
    full = zone("cpu=8 mem=8Gi")
    bound: Zone = node("cpu=8 mem=8Gi", blocks=[(0,)]).zones[0]

    assert full.emptied() is full
    assert bound.assignments
    assert bound.emptied() == full
