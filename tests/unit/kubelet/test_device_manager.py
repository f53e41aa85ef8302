"""The device manager: its hints, and how many devices come from which place."""

from dataclasses import replace

import pytest

from numalign.kubelet import device_manager
from numalign.kubelet.admit import admit
from numalign.kubelet.device_manager import Allocation, DeviceState, DeviceStates
from numalign.kubelet.hint_sets import listed
from numalign.kubelet.topology_manager import ResourceHints
from numalign.model.demand import Step
from numalign.model.node import Node
from tests.worlds.notation import GPU, NIC, asks, machine, node, options, table


def wants(text: str) -> Step:
    [step] = asks(text).steps
    return step


def pools_of(host: Node) -> DeviceStates:
    return device_manager.states(host, [NIC, GPU])


def gpus_of(host: Node) -> DeviceState:
    return pools_of(host)[GPU]


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


NEAR = [
    # what it shows                              node                            gpus since 1.36, before
    ("a zone without any widens what has some", node("gpu=4", "cpu=8"),    1, "1p",        "1p 11"),
    ("a zone whose devices are busy has them",  node("gpu=1", "gpu=1//0"), 1, "1p 11",     "1p 11"),
    ("one between zones is on both",            on("gpu=01"),              1, "1p 10p 11", "1p 10p 11"),
    ("none are had from where there are some",  node("gpu=4", "cpu=8"),    0, "1p",        "1p 10p 11"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "gpus", "since", "before"), table(NEAR))
def test_since_1_36_hints_have_only_zones_of_devices(host: Node, gpus: int, since: str, before: str) -> None:
    hints = [
        written(
            device_manager.topology_hints(
                pools_of(replace(host, options=options(minor=minor))), wants(f"gpu={gpus}")
            )
        )
        for minor in (36, 35)
    ]

    assert hints == [{GPU: since}, {GPU: before}]


def test_devices_without_topology_give_no_hint() -> None:
    assert device_manager.topology_hints(pools_of(on("gpu=-,-")), wants("gpu=1")) == []
    assert given(pools_of(on("gpu=-,-")), "gpu=1", 0b01)[1] == {GPU: Allocation((0, 0, 1), chosen=False)}


WIDTHS = [
    # what it shows                            node                                 gpus since 1.36, before
    ("busy devices count",                node("gpu=4//0", "gpu=4"),       4, 1, 1),
    ("more than there is: all zones",     node("gpu=4", "cpu=8", "gpu=4"), 9, 2, 3),
    ("one between zones counts for each", on("gpu=01,0,1"),                2, 1, 1),
    ("those of nowhere do not",           on("gpu=0,-"),                   2, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize(("host", "count", "since", "before"), table(WIDTHS))
def test_min_affinity_size_counts_all_devices(host: Node, count: int, since: int, before: int) -> None:
    widths = [
        device_manager.min_affinity_size(gpus_of(replace(host, options=options(minor=minor))).devices, count)
        for minor in (36, 35)
    ]

    assert widths == [since, before]


# The places of a machine of two zones: each zone, then nowhere, then both.
MIXED = on("gpu=0,1,-,01")


def test_zones_count_what_sits_between_them() -> None:
    """As exporters do."""
    assert gpus_of(MIXED).devices.in_zones((1, 0, 5, 2)) == (3, 2)


def test_device_of_an_unknown_zone_is_the_last_choice() -> None:
    facts = options(minor=34)
    two = machine(
        "cpu=0-3", "cpu=4-7", reserved="4-7", devices="gpu=1,?", policy="best-effort", options=facts
    )
    [grant] = admit(two, asks("cpu=4 mem=1Gi gpu=1")).placement.grants

    assert grant.affinity == (0,)
    assert grant.zones_of([GPU]) == {1}
    assert not grant.chosen
