"""Devices in columns are those that the device manager allocates on each node."""

import numpy as np
import pytest

from numalign.cache import batch_devices
from numalign.cache.batch_devices import DeviceColumns
from numalign.model.bitset import bits
from numalign.model.node import Node
from numalign.model.options import KubeletChange
from numalign.model.pod import Role
from tests.worlds.columns import masks_of
from tests.worlds.notation import GPU, free_of, node, options, table

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
    allocation = batch_devices.allocate(columns_of(node(*zones)), request_, np.array([mask]), Role.APP)

    assert (allocation.taken[:, 0].tolist(), allocation.ok.tolist()) == (taken, [True])


def test_each_row_may_have_its_own_request() -> None:
    columns = columns_of(node("gpu=9", "gpu=0"), *[node("gpu=2", "gpu=2")] * 3).at(np.array([1, 2, 3]))
    allocation = batch_devices.allocate(columns, np.array([0, 3, 5]), np.array([ANY, 0b10, 0b10]), Role.APP)

    assert allocation.taken.T.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert allocation.ok.tolist() == [True, True, False]


def test_what_an_init_container_had_is_reused_first() -> None:
    new, old = (options(minor=minor) for minor in (36, 34))
    columns = columns_of(*(node("gpu=2", "gpu=2", "gpu=0", options=chosen) for chosen in (new, old)))
    after = batch_devices.allocate(columns, 1, np.array([0b10, 0b10]), Role.INIT).after

    # From Kubernetes 1.36 on no hint includes a zone without devices.
    assert masks_of(batch_devices.hints(columns, 3)) == [[0b011], [0b011, 0b111]]
    assert masks_of(batch_devices.hints(after, 1)) == [[0b010, 0b011], [0b010, 0b011, 0b110, 0b111]]
    assert (
        batch_devices.allocate(after, 2, np.array([0b01] * 2), Role.APP).taken.T.tolist() == [[1, 1, 0]] * 2
    )
