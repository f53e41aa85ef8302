"""Devices in columns are those that the device manager gives out on each node."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import batch_devices
from numalign.cache.arrays import Bools
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
from tests.worlds.notation import GPU, free_of, node, options, table

APP, INIT, SIDECAR = Role.APP, Role.INIT, Role.SIDECAR
ANY = -1


def devices(*nodes: Node) -> DeviceColumns:
    """The GPUs of nodes with as many zones in columns."""
    free = np.array([free_of(one, "gpu") for one in nodes]).T
    hosts = [bits(at for at, zone in enumerate(one.zones) if zone.capacity.get(GPU)) for one in nodes]
    return DeviceColumns(
        free,
        np.zeros_like(free),
        np.array(hosts),
        np.array([KubeletChange.HINTS_WHERE_DEVICES_ARE in one.options.changes for one in nodes]),
        np.array([any(zone.allocatable.get(GPU) for zone in one.zones) for one in nodes]),
    )


def allocated(columns: DeviceColumns, *requests: int, mask: int = ANY, role: Role = APP) -> list[list[int]]:
    """What several containers get on the first row, by zone."""
    found = []
    for request in requests:
        columns, taken, _ = batch_devices.allocate(columns, request, np.array([mask]), role)
        found.append(taken[:, 0].tolist())
    return found


def masks_of(lattice: Bools) -> list[list[int]]:
    return [np.flatnonzero(sets).tolist() for sets in lattice.T]


# Hints.


def test_hints_are_the_sets_of_zones_with_enough_devices() -> None:
    nodes = (node("gpu=2", "gpu=2"), node("gpu=2/2/1", "gpu=2/2/1"), node("gpu=2/2/1", "gpu=2/2/0"))

    assert masks_of(batch_devices.hints(devices(*nodes), 2)) == [[1, 2, 3], [3], []]
    assert masks_of(batch_devices.hints(devices(*nodes), 0)) == [[1, 2, 3]] * 3


def test_hints_of_newer_kubelets_hold_only_zones_with_devices() -> None:
    old, new = (node("gpu=2", "cpu=2", options=options(minor=minor)) for minor in (35, 36))

    assert masks_of(batch_devices.hints(devices(old, new), 1)) == [[1, 3], [1]]


def test_hints_keep_to_what_init_containers_left() -> None:
    after, _, _ = batch_devices.allocate(devices(node("gpu=2", "gpu=2")), 1, np.array([0b10]), INIT)

    assert masks_of(batch_devices.hints(after, 1)) == [[2, 3]]


# What is taken.


@pytest.mark.parametrize(
    ("zones", "request_", "mask", "taken"),
    table(
        [
            ("the affinity", ["gpu=2", "gpu=2"], 1, 0b10, [0, 1]),
            ("its lowest zone", ["gpu=2", "gpu=2", "gpu=2"], 3, 0b110, [0, 2, 1]),
            ("then elsewhere", ["gpu=2", "gpu=2", "gpu=2"], 3, 0b010, [1, 2, 0]),
            ("the lowest zone of all", ["gpu=2/2/1", "gpu=2", "gpu=2"], 2, ANY, [1, 1, 0]),
        ]
    ),
)
def test_devices_come_from(zones: list[str], request_: int, mask: int, taken: list[int]) -> None:
    assert allocated(devices(node(*zones)), request_, mask=mask) == [taken]


def test_a_request_is_one_for_all_rows_or_one_for_each() -> None:
    found = batch_devices.allocate(
        devices(*[node("gpu=2", "gpu=2")] * 3), np.array([0, 3, 5]), np.array([ANY, 0b10, 0b10]), APP
    )

    assert found.taken.T.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert found.ok.tolist() == [True, True, False]


def test_where_all_devices_are_ill_even_none_is_refused_and_without_a_plugin_nothing_is() -> None:
    nodes = (node("gpu=2/0", "gpu=2/0"), node("cpu=2", "cpu=2"))

    assert batch_devices.allocate(devices(*nodes), 0, np.array([ANY, ANY]), APP).ok.tolist() == [False, True]
    assert batch_devices.allocate(devices(*nodes), 2, np.array([ANY, ANY]), APP).ok.tolist() == [False, True]


def test_what_init_containers_had_is_taken_again() -> None:
    columns = devices(node("gpu=2", "gpu=2"))

    assert allocated(columns, 1, 2, 3, mask=0b10, role=INIT) == [[0, 1], [0, 2], [1, 2]]
    assert allocated(columns, 1, 2, mask=0b10, role=SIDECAR) == [[0, 1], [1, 1]]


def test_rows_can_be_taken_out() -> None:
    columns = devices(*(node(text, "gpu=1") for text in ("gpu=1", "gpu=2", "gpu=3")))

    some = columns.at(np.array([2, 0]))

    assert batch_devices.allocate(some, 2, np.array([ANY, ANY]), APP).taken.T.tolist() == [[2, 0], [1, 1]]
    assert masks_of(batch_devices.hints(some, 2)) == [[1, 3], [3]]


# Laws: rows are as the rules are, node by node.


class Container(NamedTuple):
    """What one container asks, and its affinity on each of the nodes."""

    step: Step
    masks: tuple[int, ...]


class Case(NamedTuple):
    """Nodes with as many zones, and containers of one pod."""

    nodes: tuple[Node, ...]
    containers: tuple[Container, ...]


def case(pick: Pick) -> Case:
    zones = pick([1, 2, 2, 3, 4, 8])
    nodes = tuple(_node(pick, zones) for _ in range(pick([1, 2, 4])))
    return Case(nodes, tuple(_container(pick, zones, len(nodes)) for _ in range(pick([1, 2, 3, 4]))))


def _node(pick: Pick, zones: int) -> Node:
    healthy = pick([*OFTEN, True])
    texts = (_zone(pick, pick([0, 1, 2, 4]), healthy=healthy) for _ in range(zones))
    return node(*texts, options=options(minor=pick([None, 34, 36])))


def _zone(pick: Pick, capacity: int, *, healthy: bool) -> str:
    allocatable = pick([capacity, *range(capacity)]) if healthy else 0
    return f"gpu={capacity}/{allocatable}/{pick([allocatable, *range(allocatable)])}"


def _container(pick: Pick, zones: int, nodes: int) -> Container:
    step = Step("c", pick([APP, INIT, SIDECAR]), devices=Resources({GPU: pick([1, 2, 3, 0, 1, 4, 6, 9])}))
    return Container(step, tuple(pick([ANY, *range(1, 1 << zones)]) for _ in range(nodes)))


cases = st.one_of(drawn(case), st.integers(0, 2**32).map(lambda seed: seeded(case, seed)))


def admitted(asked: Case) -> Iterator[tuple[DeviceColumns, list[DeviceStates], Container, DeviceAllocation]]:
    """Each container: in columns and by the rules what is there before it, and what it gets in columns."""
    columns, states = devices(*asked.nodes), [device_manager.states(one, [GPU]) for one in asked.nodes]
    for container in asked.containers:
        step, masks = container
        found = batch_devices.allocate(columns, step.devices[GPU], np.array(masks), step.role)
        yield columns, states, container, found
        columns = found.after
        given_ = [by_rules(before, container, row) for row, before in enumerate(states)]
        states = [
            before if isinstance(now, str) else now[0] for before, now in zip(states, given_, strict=True)
        ]


def by_rules(before: DeviceStates, container: Container, row: int) -> tuple[DeviceStates, list[int]] | str:
    """What the rules give a container on one node, by zone; nothing where no plugin has registered."""
    mask = container.masks[row]
    found = device_manager.allocate(before, container.step, None if mask == ANY else mask)
    if isinstance(found, str):
        return found
    after, given_ = found
    return after, list(given_[GPU].amounts) if given_ else []


@given(cases)
def test_every_container_gets_from_each_zone_what_the_rules_give_it(asked: Case) -> None:
    for _, states, container, found in admitted(asked):
        for row, before in enumerate(states):
            given_ = by_rules(before, container, row)

            assert bool(found.ok[row]) is not isinstance(given_, str)
            nothing = [0] * len(found.taken)
            assert found.taken[:, row].tolist() == (
                nothing if isinstance(given_, str) else given_[1] or nothing
            )


@given(cases)
def test_hints_are_those_of_the_rules(asked: Case) -> None:
    for columns, states, container, _ in admitted(asked):
        lattice = masks_of(batch_devices.hints(columns, container.step.devices[GPU]))
        for masks, before in zip(lattice, states, strict=True):
            for found in device_manager.topology_hints(before, container.step):
                assert masks == hint_sets.listed(found.possible)


@given(cases)
def test_what_is_left_is_what_the_rules_have_left(asked: Case) -> None:
    for columns, states, _, _ in admitted(asked):
        for row, before in enumerate(states):
            for pool in before.values():
                assert tuple(columns.free[:, row]) == pool.free
                assert tuple(columns.reusable[:, row]) == pool.reusable
