"""What is held and what is left, of answers as the oracle gives them."""

from typing import Any

import pytest

from tools.clusters.sim.accounts import Held, available, held

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def asked(*containers: str, inits: tuple[str, ...] = (), sidecars: tuple[str, ...] = ()) -> Json:
    kept = [{"name": name, "restartPolicy": "Always"} for name in sidecars]
    ended = [{"name": name} for name in inits]
    return {"spec": {"initContainers": kept + ended, "containers": [{"name": name} for name in containers]}}


def answer(**containers: dict[str, dict[str, int]]) -> Json:
    return {"containers": {name: {"amounts": amounts} for name, amounts in containers.items()}}


def test_a_pod_holds_what_its_containers_and_sidecars_got() -> None:
    got = answer(
        a={"0": {"cpu": 2000, GPU: 1}}, b={"0": {"cpu": 1000}, "0,1": {"memory": 8}}, s={"1": {GPU: 1}}
    )
    expected = {(0,): {"cpu": 3000, GPU: 1}, (0, 1): {"memory": 8}, (1,): {GPU: 1}}
    assert held(asked("a", "b", sidecars=("s",)), got) == expected


def test_ended_init_container_holds_nothing() -> None:
    got = answer(i={"0": {"cpu": 4000}}, a={"0": {"cpu": 2000}})
    assert held(asked("a", inits=("i",)), got) == {(0,): {"cpu": 2000}}


def test_a_pod_that_shares_holds_nothing() -> None:
    assert held(asked("a"), {"containers": {"a": {"affinity": None, "preferred": True}}}) == {}


def test_what_the_pod_holds_as_a_whole_counts() -> None:
    assert held(asked("a"), answer(a={}) | {"shared": {"amounts": {"1": {"cpu": 4000}}}}) == {
        (1,): {"cpu": 4000}
    }


ZONES = {0: {"cpu": 4000, "memory": 10}, 1: {"cpu": 4000, "memory": 10}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], ZONES, id="nobody"),
        pytest.param(
            [{(0,): {"cpu": 3000, "memory": 4}}, {(1,): {"cpu": 1000}}],
            {0: {"cpu": 1000, "memory": 6}, 1: {"cpu": 3000, "memory": 10}},
            id="each from its zone",
        ),
        pytest.param(
            [{(0,): {"memory": 4}}, {(0, 1): {"memory": 9}}],
            {0: {"cpu": 4000, "memory": 0}, 1: {"cpu": 4000, "memory": 7}},
            id="a block of two zones takes all of the lower one first",
        ),
        pytest.param([{(0,): {"example.com/nic": 1}}], ZONES, id="what exporters do not list"),
    ],
)
def test_free_is_what_no_pod_holds(pods: list[Held], expected: dict[int, dict[str, int]]) -> None:
    assert available(ZONES, pods) == expected
