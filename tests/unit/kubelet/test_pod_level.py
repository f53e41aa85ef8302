"""How the containers of a pod divide what it was given as a whole."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import cpu_manager, pod_level
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.managers_state import read_state
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model import demand
from numalign.model.demand import PodLevel
from numalign.model.machine import read_list, render_list
from numalign.model.pod import Role
from numalign.model.resources import Resources
from tests.worlds.notation import bag, machine, pod, table

NODE = machine("cpu=0-7 mem=10Gi", threads=2, reserved="7")
WHOLE = "cpu=6 mem=6Gi"
SHARES = "cpu=1.. mem=1Gi.."


def stated(*containers: str) -> PodLevel:
    level = demand.of(pod(*containers, requests=WHOLE, limits=WHOLE)).pod_level
    assert level
    return level


DIVIDED = [
    # what it shows
    #     containers, CPUs of each
    ("a sharing container has none", ["cpu=4 mem=4Gi", SHARES], {"c0": "0-1,4-5"}),
    ("an init container's come back",
         ["init cpu=6 mem=6Gi", "cpu=6 mem=6Gi"], {"c0": "0-2,4-6", "c1": "0-2,4-6"}),
    ("a sidecar's do not", ["sidecar cpu=2 mem=1Gi", "cpu=4 mem=4Gi"], {"c0": "0,4", "c1": "1-2,5-6"}),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "shares"), table(DIVIDED))
def test_cpus_of_a_pod_are_divided_by_container(containers: list[str], shares: Mapping[str, str]) -> None:
    cpus = cpu_manager.state(NODE)
    assert cpus
    shares_of = pod_level.divide_cpus(cpus, read_list("0-2,4-6"), stated(*containers).steps, 1)

    assert not isinstance(shares_of, RejectionReason)
    assert {name: render_list(held) for name, held in shares_of.items()} == shares


def test_container_with_more_than_its_pod_is_refused() -> None:
    cpus = cpu_manager.state(NODE)
    assert cpus
    steps = stated("cpu=4 mem=4Gi").steps

    assert pod_level.divide_cpus(cpus, read_list("0,4"), steps, 1) is RejectionReason.UNEXPECTED_ADMISSION


MEMORY = [
    # what it shows
    #     containers, memory of each
    ("sharing containers see all that remains",
         ["cpu=4 mem=4Gi", SHARES, SHARES], {"c0": "mem=4Gi", "c1": "mem=2Gi", "c2": "mem=2Gi"}),
    ("but what a sidecar has", ["sidecar cpu=1 mem=1Gi", f"init {SHARES}", "cpu=4 mem=4Gi"],
         {"c0": "mem=1Gi", "c1": "mem=5Gi", "c2": "mem=4Gi"}),
    ("nothing remains", ["cpu=5 mem=6Gi", f"sidecar {SHARES}"], {"c0": "mem=6Gi", "c1": ""}),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "shares"), table(MEMORY))
def test_memory_of_a_pod_is_divided_by_container(containers: list[str], shares: Mapping[str, str]) -> None:
    shares_of = pod_level.divide_memory(Resources(bag("mem=6Gi")), stated(*containers).steps)

    assert dict(shares_of) == {name: bag(text) for name, text in shares.items()}


@pytest.mark.parametrize("allocate", [pod_level.allocate_cpus, pod_level.allocate_memory])
def test_crowded_resources_are_not_allocated(allocate: Callable[..., object]) -> None:
    containers = ["cpu=6 mem=6Gi", SHARES]
    asking = replace(demand.of(pod(*containers)), whole=stated(*containers).whole)
    hint = TopologyHint(None, preferred=True)
    crowded = frozenset({"cpu", "memory"})
    assert allocate(read_state(NODE, ()), asking, hint, crowded) is RejectionReason.EMPTY_SHARED_POOL


PINNED = [f"cpu={cpus} mem={memory}Gi" for cpus in (1, 3) for memory in (1, 6)]
CONTAINERS = st.builds(
    str.__add__, st.sampled_from(["", "init ", "sidecar "]), st.sampled_from([SHARES, *PINNED])
)


@given(st.lists(CONTAINERS, min_size=1, max_size=5))
def test_crowded_counts_cpus_of_sharing_containers(containers: list[str]) -> None:
    level = stated(*containers)

    def crowded(name: str) -> bool:
        pinned, shared, most = 0, False, level.whole.requests[name]
        for step in level.steps:
            own = step.exclusive.get(name, 0)
            if step.role is not Role.INIT:
                shared |= not own
                pinned += own
            elif not own and pinned >= most:
                return True
        return shared and pinned >= most

    assert level.crowded == {name for name in level.whole.requests if crowded(name)}
