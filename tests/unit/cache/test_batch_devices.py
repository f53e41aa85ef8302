"""Devices in columns are those that the device manager allocates on each node."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_devices
from numalign.cache.batch_devices import DeviceAllocation, DeviceColumns
from numalign.kubelet import device_manager, hint_sets
from numalign.kubelet.device_manager import DeviceStates
from numalign.model.bitset import bits
from numalign.model.demand import Step
from numalign.model.node import Node
from numalign.model.options import KubeletChange
from numalign.model.pod import Role
from numalign.model.resources import Resources
from tests.laws.fleets import OFTEN, Pick, drawn, seeded
from tests.worlds.columns import masks_of
from tests.worlds.notation import GPU, free_of, node, options, table

APP, INIT, SIDECAR = Role.APP, Role.INIT, Role.SIDECAR
ANY = -1


def columns_of(*nodes: Node) -> DeviceColumns:
    free = np.array([free_of(node, "gpu") for node in nodes]).T
    hosts = [bits(at for at, zone in enumerate(node.zones) if zone.capacity.get(GPU)) for node in nodes]
    return DeviceColumns(
        free,
        np.zeros_like(free),
        np.array(hosts),
        np.array([KubeletChange.HINTS_WHERE_DEVICES_ARE in node.options.changes for node in nodes]),
        np.array([any(zone.allocatable.get(GPU) for zone in node.zones) for node in nodes]),
    )


TAKEN = [
    ("the affinity", ["gpu=2", "gpu=2"], 1, 0b10, [0, 1]),
    ("its lowest zone", ["gpu=2", "gpu=2", "gpu=2"], 3, 0b110, [0, 2, 1]),
    ("then elsewhere", ["gpu=2", "gpu=2", "gpu=2"], 3, 0b010, [1, 2, 0]),
    ("the lowest zone of all", ["gpu=2/2/1", "gpu=2", "gpu=2"], 2, ANY, [1, 1, 0]),
    ("nowhere without a plugin", ["cpu=2", "cpu=2"], 2, ANY, [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "request_", "mask", "taken"), table(TAKEN))
def test_devices_come_from(zones: list[str], request_: int, mask: int, taken: list[int]) -> None:
    allocation = batch_devices.allocate(columns_of(node(*zones)), request_, np.array([mask]), APP)

    assert (allocation.taken[:, 0].tolist(), allocation.ok.tolist()) == (taken, [True])


def test_each_row_may_have_its_own_request() -> None:
    columns = columns_of(node("gpu=9", "gpu=0"), *[node("gpu=2", "gpu=2")] * 3).at(np.array([1, 2, 3]))
    allocation = batch_devices.allocate(columns, np.array([0, 3, 5]), np.array([ANY, 0b10, 0b10]), APP)

    assert allocation.taken.T.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert allocation.ok.tolist() == [True, True, False]


# Laws: rows are as the rules are, node by node.


class Container(NamedTuple):
    """The request of one container, and its affinity on each of the nodes."""

    step: Step
    masks: tuple[int, ...]


class Case(NamedTuple):
    nodes: tuple[Node, ...]
    containers: tuple[Container, ...]


def case(pick: Pick) -> Case:
    zones = pick([1, 2, 2, 3, 4, 8])
    nodes = tuple(_node(pick, zones) for _ in range(pick([1, 2, 4])))
    return Case(nodes, tuple(_container(pick, zones, len(nodes)) for _ in range(pick([3, 4, 3, 1]))))


def _node(pick: Pick, zones: int) -> Node:
    healthy = pick([*OFTEN, True])
    texts = (_zone(pick, pick([0, 1, 2, 4]), healthy=healthy) for _ in range(zones))
    return node(*texts, options=options(minor=pick([None, 34, 36])))


def _zone(pick: Pick, capacity: int, *, healthy: bool) -> str:
    allocatable = pick([capacity, *range(capacity)]) if healthy else 0
    return f"gpu={capacity}/{allocatable}/{pick([allocatable, *range(allocatable)])}"


def _container(pick: Pick, zones: int, nodes: int) -> Container:
    step = Step("c", pick([INIT, SIDECAR, APP]), devices=Resources({GPU: pick([1, 2, 3, 0, 1, 4, 6, 9])}))
    return Container(step, tuple(pick([ANY, *range(1, 1 << zones)]) for _ in range(nodes)))


cases = st.one_of(drawn(case), st.integers(0, 2**32).map(lambda seed: seeded(case, seed)))


def admitted(case: Case) -> Iterator[tuple[DeviceColumns, list[DeviceStates], Container, DeviceAllocation]]:
    """Each container: the columns and the states before it, and its allocation in columns."""
    columns, states = columns_of(*case.nodes), [device_manager.states(node, [GPU]) for node in case.nodes]
    for container in case.containers:
        step, masks = container
        allocation = batch_devices.allocate(columns, step.devices[GPU], np.array(masks), step.role)
        yield columns, states, container, allocation
        columns = allocation.after
        states = [
            before if isinstance(after := by_rules(before, container, row), str) else after[0]
            for row, before in enumerate(states)
        ]


def by_rules(before: DeviceStates, container: Container, row: int) -> tuple[DeviceStates, list[int]] | str:
    """The allocation on one node, by zone; empty if no plugin has registered."""
    mask = container.masks[row]
    result = device_manager.allocate(before, container.step, None if mask == ANY else mask)
    if isinstance(result, str):
        return result
    after, grants = result
    return after, list(grants[GPU].amounts) if grants else []


@given(cases)
def test_each_container_gets_the_devices_of_the_rules(case: Case) -> None:
    for columns, states, container, allocation in admitted(case):
        for row, before in enumerate(states):
            result = by_rules(before, container, row)
            nothing = [0] * columns.zones

            assert bool(allocation.ok[row]) is not isinstance(result, str)
            assert allocation.taken[:, row].tolist() == (
                nothing if isinstance(result, str) else result[1] or nothing
            )
            for pool in before.values():
                assert tuple(columns.free[:, row]) == pool.free
                assert tuple(columns.reusable[:, row]) == pool.reusable


@given(cases)
def test_hints_are_those_of_the_rules(case: Case) -> None:
    for columns, states, container, _ in admitted(case):
        by_row = masks_of(batch_devices.hints(columns, container.step.devices[GPU]))
        for masks, before in zip(by_row, states, strict=True):
            for hints in device_manager.topology_hints(before, container.step):
                assert masks == hint_sets.listed(hints.possible)
