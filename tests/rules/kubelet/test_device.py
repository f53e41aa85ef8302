"""The device manager: its hints, and how many devices come from which zone."""

import pytest

from numalign.rules.demand import Step
from numalign.rules.kubelet import device
from numalign.rules.kubelet.device import Pools
from numalign.rules.kubelet.merge import Offer
from numalign.rules.topology import Node
from tests.notation import GPU, NIC, asks, node, table

EVEN = node("gpu=4", "gpu=4")


def wants(text: str) -> Step:
    [step] = asks(text).steps
    return step


def pools_of(told: Node) -> Pools:
    return device.of(told, [NIC, GPU])


def written(offers: list[Offer]) -> dict[str, str]:
    """Hints as masks with p for what is preferred, by resource."""
    return {
        offer.resource: " ".join(f"{mask:b}{'p' * (mask in offer.preferred)}" for mask in offer.possible)
        for offer in offers
    }


HINTS = [
    # what it shows                            node                          gpus hints
    ("one zone is enough, and either can",      EVEN,                         4, "1p 10p 11"),
    ("it takes both",                           EVEN,                         5, "11p"),
    ("too few are free: impossible",            node("gpu=4//1", "gpu=4//2"), 4, ""),
    ("busy devices make one zone look enough",  node("gpu=4//1", "gpu=4//2"), 3, "11"),
    ("a zone without any widens what has some", node("gpu=4", "cpu=8"),       1, "1p 11"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "gpus", "hints"), table(HINTS))
def test_hints(told: Node, gpus: int, hints: str) -> None:
    found = device.offers(pools_of(told), wants(f"gpu={gpus}"))

    assert written(found) == {GPU: hints}


def test_each_resource_has_its_own_hints() -> None:
    told = pools_of(node("gpu=1", "nic=1"))

    assert written(device.offers(told, wants("gpu=1 nic=1"))) == {
        NIC: "10p 11",
        GPU: "1p 11",
    }


def test_a_resource_that_is_not_asked_for_gives_no_hint() -> None:
    assert device.offers(pools_of(node("gpu=1 nic=1")), wants("gpu=1"))[0].resource == GPU
    assert device.offers(pools_of(EVEN), wants("")) == []


def test_a_resource_that_no_zone_lists_has_no_topology() -> None:
    assert list(pools_of(EVEN)) == [GPU]


WIDTHS = [
    ("busy devices count", (4, 4), 4, 1),
    ("several zones", (4, 4), 5, 2),
    ("more than there is: all zones", (4, 0, 4), 9, 3),
]


@pytest.mark.parametrize(("total", "asked", "zones"), table(WIDTHS))
def test_the_fewest_zones_by_hardware(total: tuple[int, ...], asked: int, zones: int) -> None:
    assert device.width(total, asked) == zones


TAKEN = [
    # what it shows                        node                          gpus inside taken
    ("inside the affinity",                 EVEN,                         2, 0b10, (0, 2)),
    ("from anywhere if that is not enough", EVEN,                         6, 0b10, (2, 4)),
    ("from anywhere without an affinity",   EVEN,                         5, None, (4, 1)),
    ("from where they are free",            node("gpu=4//0", "gpu=4//1"), 1, 0b01, (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "gpus", "inside", "taken"), table(TAKEN))
def test_devices_are_taken(told: Node, gpus: int, inside: int | None, taken: tuple[int, ...]) -> None:
    before = pools_of(told)
    outcome = device.allocate(before, wants(f"gpu={gpus}"), inside)

    assert not isinstance(outcome, str)
    after, found = outcome
    assert found == {GPU: taken}
    assert [sum(pair) for pair in zip(after[GPU].free, taken, strict=True)] == list(before[GPU].free)


def test_too_few_devices_are_told_by_name() -> None:
    assert device.allocate(pools_of(node("gpu=4//1 nic=1")), wants("gpu=2 nic=1"), None) == GPU


def test_what_an_init_container_left_comes_first() -> None:
    outcome = device.allocate(pools_of(EVEN), wants("init gpu=2"), 0b10)
    assert not isinstance(outcome, str)
    left, _ = outcome

    assert written(device.offers(left, wants("gpu=3"))) == {GPU: "10p 11"}
    again = device.allocate(left, wants("gpu=3"), 0b01)
    assert not isinstance(again, str)
    assert again[1] == {GPU: (1, 2)}
    assert again[0][GPU].reusable == (0, 0)
