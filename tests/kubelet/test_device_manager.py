"""The device manager: its hints, and how many devices come from which place."""

from dataclasses import replace

import pytest

from numalign.kubelet import device_manager
from numalign.kubelet.device_manager import Allocation, DeviceState, DeviceStates
from numalign.kubelet.hint_sets import listed
from numalign.kubelet.topology_manager import ResourceHints
from numalign.kubelet.zone_amounts import ZoneAmounts
from numalign.model.demand import Step
from numalign.model.node import Node
from numalign.model.pod import Role
from tests.notation import GPU, NIC, asks, machine, node, options, table

EVEN = node("gpu=4", "gpu=4")


def wants(text: str) -> Step:
    [step] = asks(text).steps
    return step


def pools_of(told: Node) -> DeviceStates:
    return device_manager.states(told, [NIC, GPU])


def gpus_of(told: Node) -> DeviceState:
    return pools_of(told)[GPU]


def given(
    before: DeviceStates, text: str, inside: int | None = None
) -> tuple[DeviceStates, dict[str, Allocation]]:
    """The devices after a container, and those that it got."""
    outcome = device_manager.allocate(before, wants(text), inside)
    assert not isinstance(outcome, str)
    return outcome


def written(offers: list[ResourceHints]) -> dict[str, str]:
    """Hints as masks with p for what is preferred, by resource."""
    return {
        offer.resource: " ".join(
            f"{mask:b}{'p' * (offer.preferred >> mask & 1)}" for mask in listed(offer.possible)
        )
        for offer in offers
    }


def on(devices: str) -> Node:
    """Two zones with devices."""
    return machine("cpu=0-3", "cpu=4-7", devices=devices)


HINTS = [
    # what it shows                            node                          gpus hints
    ("one zone is enough, and either can",      EVEN,                         4, "1p 10p 11"),
    ("it takes both",                           EVEN,                         5, "11p"),
    ("too few are free: impossible",            node("gpu=4//1", "gpu=4//2"), 4, ""),
    ("busy devices make one zone look enough",  node("gpu=4//1", "gpu=4//2"), 3, "11"),
    ("of none, any zone has enough",            node("gpu=4//0", "gpu=4//0"), 0, "1p 10p 11"),
    ("the same on a machine",                   on("gpu=0,0,0*,0*,1,1*"),     3, "11"),
    ("unhealthy ones look enough as well",      on("gpu=0,0,0x,0x,1,1"),      3, "11"),
    ("and cannot be had",                       on("gpu=0,0,0x,0x,1,1"),      5, ""),
    ("the same where they are counted",         node("gpu=4/2", "gpu=2"),     3, "11"),
    ("with none healthy there is none for 0",   on("gpu=0x,1x"),              0, "1p 10p 11"),
    ("one between zones serves each of them",   on("gpu=01,0"),               1, "1p 10p 11"),
    ("and counts for each of them",             on("gpu=01,0"),               2, "1p 11"),
    ("but once for both",                       on("gpu=01,0"),               3, ""),
    ("not if it is given out",                  on("gpu=01*,0,1"),            2, "11"),
    ("one of nowhere serves no zone",           on("gpu=0,1,-"),              2, "11p"),
    ("so it can be impossible to have all",     on("gpu=0,1,-"),              3, ""),
]  # fmt: skip


@pytest.mark.parametrize(("told", "gpus", "hints"), table(HINTS))
def test_hints(told: Node, gpus: int, hints: str) -> None:
    found = device_manager.topology_hints(pools_of(told), wants(f"gpu={gpus}"))

    assert written(found) == {GPU: hints}


NEAR = [
    # what it shows                              node                            gpus since 1.36, before
    ("a zone without any widens what has some",  node("gpu=4", "cpu=8"),         1, "1p", "1p 11"),
    ("a zone whose devices are busy has them",   node("gpu=1", "gpu=1//0"),      1, "1p 11", "1p 11"),
    ("so has one whose devices are unhealthy",   on("gpu=0,1x"),                 1, "1p 11", "1p 11"),
    ("one between zones is on both",             on("gpu=01"),                   1, "1p 10p 11", "1p 10p 11"),
    ("what is too much is as wide as can be",    node("gpu=2", "gpu=2", "nic=8"), 4, "11p", "11p 111"),
    ("none are had from where there are some",   node("gpu=4", "cpu=8"),         0, "1p", "1p 10p 11"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "gpus", "since", "before"), table(NEAR))
def test_since_1_36_hints_hold_only_zones_that_have_a_device(
    told: Node, gpus: int, since: str, before: str
) -> None:
    hints = [
        written(
            device_manager.topology_hints(
                pools_of(replace(told, options=options(minor=minor))), wants(f"gpu={gpus}")
            )
        )
        for minor in (36, 35)
    ]

    assert hints == [{GPU: since}, {GPU: before}]


def test_each_resource_has_its_own_hints() -> None:
    told = pools_of(node("gpu=1", "nic=1", options=options(minor=35)))

    assert written(device_manager.topology_hints(told, wants("gpu=1 nic=1"))) == {
        NIC: "10p 11",
        GPU: "1p 11",
    }


def test_a_resource_that_is_not_asked_for_gives_no_hint() -> None:
    assert device_manager.topology_hints(pools_of(node("gpu=1 nic=1")), wants("gpu=1"))[0].resource == GPU
    assert device_manager.topology_hints(pools_of(EVEN), wants("")) == []


def test_a_resource_that_no_zone_lists_has_no_topology() -> None:
    assert list(pools_of(EVEN)) == [GPU]


def test_devices_of_which_nobody_knows_where_they_sit_give_no_hint() -> None:
    assert device_manager.topology_hints(pools_of(on("gpu=-,-")), wants("gpu=1")) == []
    assert given(pools_of(on("gpu=-,-")), "gpu=1", 0b01)[1] == {GPU: Allocation((0, 0, 1), chosen=False)}


WIDTHS = [
    # what it shows                            node                                 gpus since 1.36, before
    ("busy devices count",                      node("gpu=4//0", "gpu=4"),           4, 1, 1),
    ("several zones",                           EVEN,                                5, 2, 2),
    ("more than there is: all zones",           node("gpu=4", "cpu=8", "gpu=4"),     9, 2, 3),
    ("one between zones counts for each",       on("gpu=01,0,1"),                    2, 1, 1),
    ("and once for both",                       on("gpu=01,0,1"),                    4, 2, 2),
    ("unhealthy ones count",                    on("gpu=0,0x"),                      2, 1, 1),
    ("those of nowhere do not",                 on("gpu=0,-"),                       2, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "since", "before"), table(WIDTHS))
def test_the_fewest_zones_by_hardware(told: Node, asked: int, since: int, before: int) -> None:
    widths = [
        device_manager.min_affinity_size(gpus_of(replace(told, options=options(minor=minor))).devices, asked)
        for minor in (36, 35)
    ]

    assert widths == [since, before]


# The places of a machine of two zones: each zone, then nowhere, then both.
MIXED = on("gpu=0,1,-,01")

TAKEN = [
    # what it shows                        node                          gpus inside taken, chosen
    ("inside the affinity",                 EVEN,                         2, 0b10, (0, 2), False),
    ("from anywhere if that is not enough", EVEN,                         6, 0b10, (2, 4), False),
    ("from anywhere without an affinity",   EVEN,                         5, None, (4, 1), True),
    ("from where they are free",            node("gpu=4//0", "gpu=4//1"), 1, 0b01, (0, 1), False),
    ("of several zones, any",               EVEN,                         2, 0b11, (2, 0), True),
    ("of several zones, all",               EVEN,                         8, 0b11, (4, 4), False),
    ("none",                                EVEN,                         0, 0b11, (0, 0), False),
    ("one between zones is inside of each", MIXED,                        2, 0b10, (0, 1, 0, 1), False),
    ("which of these is any",               MIXED,                        1, 0b10, (0, 1, 0, 0), True),
    ("those elsewhere before nowhere",      MIXED,                        3, 0b10, (1, 1, 0, 1), False),
    ("those nowhere last",                  on("gpu=0,-,-,1"),            3, 0b10, (1, 1, 1), False),
    ("without an affinity all are alike",   MIXED,                        3, None, (1, 1, 1, 0), True),
    ("not those that are given out",        on("gpu=0*,1"),               1, 0b01, (0, 1), False),
    ("nor those that are unhealthy",        on("gpu=0x,1"),               1, 0b01, (0, 1), False),
]  # fmt: skip


@pytest.mark.parametrize(("told", "gpus", "inside", "taken", "chosen"), table(TAKEN))
def test_devices_are_taken(
    told: Node, gpus: int, inside: int | None, taken: tuple[int, ...], *, chosen: bool
) -> None:
    before = pools_of(told)
    after, found = given(before, f"gpu={gpus}", inside)

    assert found == {GPU: Allocation(taken, chosen)}
    assert [sum(pair) for pair in zip(after[GPU].free, taken, strict=True)] == list(before[GPU].free)


SHORT = [
    # what it shows                       node                        asked          too few
    ("too few are free",                   node("gpu=4//1 nic=1"),     "gpu=2 nic=1", GPU),
    ("the first name of several",          node("gpu=4//1 nic=1//0"),  "gpu=2 nic=1", NIC),
    ("no healthy one, not even for none",  on("gpu=0x,1x"),            "gpu=0",       GPU),
    ("the same where they are counted",    node("gpu=2/0"),            "gpu=0",       GPU),
    ("busy ones are healthy",              on("gpu=0*,1*"),            "gpu=0",       None),
    ("a resource of other managers",       EVEN,                       "nic=9",       None),
]  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "short"), table(SHORT))
def test_too_few_devices_are_told_by_name(told: Node, asked: str, short: str | None) -> None:
    outcome = device_manager.allocate(pools_of(told), wants(asked), None)

    assert (outcome if isinstance(outcome, str) else None) == short


def test_what_an_init_container_left_comes_first() -> None:
    left, _ = given(pools_of(EVEN), "init gpu=2", 0b10)

    assert written(device_manager.topology_hints(left, wants("gpu=3"))) == {GPU: "10p 11"}
    after, taken = given(left, "gpu=3", 0b01)
    assert taken == {GPU: Allocation((1, 2), chosen=False)}
    assert after[GPU].reusable == (0, 0)


def test_of_several_that_are_left_any_may_be_used_again() -> None:
    left, _ = given(pools_of(EVEN), "init gpu=5", 0b10)

    assert left[GPU].reusable == (1, 4)
    assert given(left, "gpu=1", 0b10)[1] == {GPU: Allocation((1, 0), chosen=True)}
    assert given(left, "gpu=5", 0b10)[1] == {GPU: Allocation((1, 4), chosen=False)}


def test_what_is_left_of_several_places_anchors_to_each() -> None:
    left, _ = given(pools_of(on("gpu=0,1,1,-,01")), "init gpu=4", 0b01)

    assert left[GPU].reusable == (1, 2, 0, 1)
    assert written(device_manager.topology_hints(left, wants("gpu=1"))) == {GPU: "11"}


def test_what_is_left_between_zones_anchors_to_either() -> None:
    left, _ = given(pools_of(on("gpu=0,01")), "init gpu=1", 0b10)

    assert left[GPU].reusable == (0, 0, 1)
    assert written(device_manager.topology_hints(left, wants("gpu=1"))) == {GPU: "1p 10p 11"}


def test_what_is_left_of_nowhere_anchors_to_nothing() -> None:
    left = gpus_of(on("gpu=0*,1,-*"))._replace(reusable=(0, 0, 1))

    assert written(device_manager.topology_hints({GPU: left}, wants("gpu=1"))) == {GPU: "10p 11"}


USED_AGAIN = [
    # what it shows                                   taken   by            free    to use again
    ("an app takes what was left before anything new", (3, 1), Role.APP,     (1, 7), (0, 0)),
    ("an app that needs less leaves the rest",         (1, 0), Role.APP,     (2, 8), (1, 0)),
    ("a sidecar stays, like an app",                   (1, 0), Role.SIDECAR, (2, 8), (1, 0)),
    ("an init container adds to what is left",         (3, 1), Role.INIT,    (1, 7), (3, 1)),
    ("and takes of that first",                        (1, 0), Role.INIT,    (2, 8), (2, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "role", "free", "again"), table(USED_AGAIN))
def test_a_container_is_charged(
    taken: ZoneAmounts, role: Role, free: ZoneAmounts, again: ZoneAmounts
) -> None:
    before = gpus_of(node("gpu=8//2", "gpu=8//8"))._replace(reusable=(2, 0))
    after = before.charged(taken, role)

    assert (after.free, after.reusable) == (free, again)


def test_zones_count_what_sits_between_them() -> None:
    """As exporters do."""
    assert gpus_of(MIXED).devices.in_zones((1, 0, 5, 2)) == (3, 2)
