"""The pods of the end-to-end comparison: the same for everybody, and none that could never run."""

import pytest

from tools.bench.e2e_workload import LARGEST, tasks

TASKS = tasks(1, pods=400, seconds=15, life=8)


def test_the_same_seed_gives_the_same_pods() -> None:
    assert tasks(1, pods=400, seconds=15, life=8) == TASKS


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_pod_fits_into_a_zone(seed: int) -> None:
    for task in tasks(seed, pods=400, seconds=15, life=8):
        assert all(0 < amount <= LARGEST[name] for name, amount in task.requests.items()), task
