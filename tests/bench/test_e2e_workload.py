"""The pods of the end-to-end comparison: the same for everybody, and none that could never run."""

import pytest

from bench.e2e_workload import GPU, LARGEST, Task, described, tasks

TASKS = tasks(1, pods=400, seconds=15, life=8)


def test_the_same_seed_gives_the_same_pods() -> None:
    assert tasks(1, pods=400, seconds=15, life=8) == TASKS


def test_another_seed_gives_other_pods() -> None:
    assert tasks(2, pods=400, seconds=15, life=8) != TASKS


def test_pods_come_one_after_the_other_within_the_time() -> None:
    arrivals = [task.at for task in TASKS]
    assert arrivals == sorted(arrivals)
    assert 0 <= arrivals[0] < arrivals[-1] <= 15


def test_there_are_services_and_pods_that_end() -> None:
    lives = [task.life for task in TASKS]
    assert 20 < lives.count(None) < 100
    assert all(1 <= life <= 16 for life in lives if life is not None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_pod_fits_into_a_zone(seed: int) -> None:
    for task in tasks(seed, pods=400, seconds=15, life=8):
        assert all(0 < amount <= LARGEST[name] for name, amount in task.requests.items()), task


def test_some_pods_ask_for_gpus_and_some_of_them_for_several() -> None:
    asked = {task.requests.get(GPU, 0) for task in TASKS}
    assert asked == {0, 1, 2, 4}


def test_whoever_asks_for_several_gpus_wants_them_together() -> None:
    assert all(
        task.policy in {"restricted", "single-numa-node"} for task in TASKS if task.requests.get(GPU, 0) > 1
    )


@pytest.mark.parametrize(
    ("guaranteed", "limits"),
    [
        pytest.param(True, {"cpu": "8", GPU: "1"}, id="guaranteed: everything is limited"),
        pytest.param(False, {GPU: "1"}, id="burstable: only devices are"),
    ],
)
def test_a_pod_says_what_its_task_asks_for(guaranteed: bool, limits: dict[str, str]) -> None:  # noqa: FBT001
    task = Task("t", 0, None, {"cpu": 8, GPU: 1}, {"numalign.io/policy": "restricted"}, guaranteed)
    pod = task.pod(attempt=2)
    assert pod["metadata"]["name"] == "t-2"
    assert pod["metadata"]["annotations"] == {"numalign.io/policy": "restricted"}
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "8", GPU: "1"}, "limits": limits}


def test_a_load_is_told_in_a_sentence() -> None:
    task = Task("t", 0, None, {"cpu": 8, GPU: 4}, {"numalign.io/policy": "restricted"}, guaranteed=True)
    assert described([task]) == (
        "1 pods, 1 of them until the end; 1 ask for GPUs, 1 for several; 1 say how they want to be aligned"
    )
