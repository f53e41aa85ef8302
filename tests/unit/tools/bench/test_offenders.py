"""Offenders are measured on clusters of any size."""

from tools.bench.offenders import looks, measure, pods


def test_a_command_and_its_memory_are_measured() -> None:
    seconds, mib = measure(nodes=4, count=20)

    assert seconds > 0
    assert mib > 10


async def test_looks_of_a_controller_are_measured() -> None:
    seconds, _growth = await looks(nodes=4, count=20)

    assert len(seconds) == 2
    assert min(seconds) > 0


def test_pods_run_on_the_nodes_that_there_are() -> None:
    made = [*pods(5, nodes=2)]

    assert [pod["spec"]["nodeName"] for pod in made] == [f"node-0000{at}" for at in (0, 1, 0, 1, 0)]
    assert len({pod["metadata"]["uid"] for pod in made}) == 5
