"""Equal values become one, and what is only alike does not."""

from numalign.model.sharing import shared
from tests.worlds.notation import node, zone


def test_equal_values_share_the_first() -> None:
    first, second = zone("cpu=7 mem=77Gi"), zone("cpu=7 mem=77Gi")
    assert first is not second
    assert shared(first) is first
    assert shared(second) is first


def test_values_of_different_types_stay_apart() -> None:
    assert [type(shared(each)) for each in (True, 1, 1.0, "1")] == [bool, int, float, str]


def test_nodes_of_one_model_share_what_is_equal() -> None:
    one, other = (node("cpu=8 gpu=1", "cpu=8 gpu=1", policy="restricted") for _ in range(2))
    assert (one.ids, one.devices, one.hinting) == (other.ids, other.devices, other.hinting)
    assert one.ids is other.ids
    assert one.devices is other.devices
    assert one.hinting is other.hinting
