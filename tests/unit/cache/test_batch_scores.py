"""The choice between equal sets of zones in columns is that of the rules."""

from collections.abc import Sequence

import numpy as np
import pytest

from numalign.cache import batch_scores
from numalign.cache.batch_scores import BatchUse
from numalign.kubelet import hint_sets
from numalign.kubelet.managers_state import read_state
from numalign.kubelet.numa_scores import tie_break, ties
from numalign.kubelet.topology_manager import NumaInfo, ResourceHints, merge
from numalign.model.options import Options
from numalign.model.resources import CPU, MEMORY, MILLI
from tests.worlds.notation import GPU, Ids, node, options, table

UNITS = {CPU: MILLI, MEMORY: 1, GPU: 1}
MOST, LEAST = (options(strategy=f"{strategy}-allocated") for strategy in ("most", "least"))
GPUS = options(strategy="most-allocated", weights="cpu=0 mem=0")
BY_MANAGERS = options("prefer-most-allocated-numa-node")
USED = ["cpu=8//4 mem=8//8 gpu=4", "cpu=8//2 mem=8//8 gpu=4//0", "cpu=8 mem=8//1 gpu=4", "cpu=8 mem=8 gpu=4"]
EQUAL = ["cpu=4//2"] * 4
SETS = [
    # what it shows                             zones, options, resources, sets that fit, and the chosen one
    ("of which most is allocated",              USED, MOST, (CPU, MEMORY), [1, 2, 4, 8], 4),
    ("of which least is allocated",             USED, LEAST, (CPU, MEMORY), [1, 2, 4, 8], 8),
    ("by the weights of resources",             USED, GPUS, (CPU, GPU), [1, 2, 4, 8], 2),
    ("by the signals of managers",              USED, BY_MANAGERS, (GPU,), [1, 2, 8], 2),
    ("wider sets only if none is as narrow",    USED, MOST, (CPU,), [1, 0b0110], 1),
    ("of equal scores the lower number",        EQUAL, MOST, (CPU,), [0b1001, 0b0110], 0b0110),
    ("none if none fits",                       EQUAL, MOST, (CPU,), [], 0),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "chosen", "names", "fits", "best"), table(SETS))
def test_a_set_is_chosen(
    zones: list[str], chosen: Options, names: Sequence[str], fits: list[int], best: int
) -> None:
    policy = "single-numa-node" if chosen is BY_MANAGERS else "restricted"
    one = node(*zones, policy=policy, options=chosen)
    how, sets, every = ties(one), hint_sets.of(fits), np.arange(1, 16)
    hints = [ResourceHints(name, sets, sets) for name in names]
    decision = merge(one.policy, hints, NumaInfo(4), tie_break(one, read_state(one, {GPU})))
    counted = names if chosen is not BY_MANAGERS else (CPU, MEMORY)
    bags = [(zone.allocatable, zone.free) for zone in one.zones]
    amounts = {
        name: np.array([[bag.get(name, 0) // UNITS[name] for bag in pair] for pair in bags])
        for name in counted
    }
    uses = {name: BatchUse(own[:, :1], own[:, 1:], np.array([True])) for name, own in amounts.items()}

    assert how
    lattice = np.array([[mask in fits] for mask in every])
    assert batch_scores.first(every, lattice, NumaInfo(4), how, uses).tolist() == [best]
    assert best == (decision.affinity.mask if decision.admitted else 0)


NEAR: dict[Ids, int] = {(one, other): 10 if one == other else 12 if one + other == 3 else 21
                        for one in range(4) for other in range(4)}  # fmt: skip


def test_closer_sets_come_before_fuller_ones() -> None:
    distances = tuple(tuple(NEAR[one, other] for other in range(4)) for one in range(4))
    one = node("cpu=4//0", "cpu=4//0", "cpu=4", "cpu=4", policy="restricted", costs=NEAR, options=MOST)
    how = ties(one)
    use = BatchUse(np.full((4, 1), 4), np.array([[0], [0], [4], [4]]), np.array([True]))
    assert how

    masks, fits = np.array([0b0011, 0b1001]), np.ones((2, 1), dtype=np.bool_)
    assert batch_scores.first(masks, fits, NumaInfo(4, distances), how, {CPU: use}).tolist() == [0b1001]
    assert batch_scores.first(masks, fits, NumaInfo(4), how, {CPU: use}).tolist() == [0b0011]
