"""What a pod is given as a whole leaves something to each container; recordings show how they divide it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kubelet import pod_level
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.managers_state import read_state
from numalign.kubelet.topology_manager import TopologyHint
from numalign.model import demand
from numalign.model.demand import PodLevel
from numalign.model.pod import Role
from tests.worlds.notation import machine, pod

NODE = machine("cpu=0-7 mem=10Gi", threads=2, reserved="7")
WHOLE = "cpu=6 mem=6Gi"
SHARES = "cpu=1.. mem=1Gi.."


def stated(*containers: str) -> PodLevel:
    level = demand.of(pod(*containers, requests=WHOLE, limits=WHOLE)).pod_level
    assert level
    return level


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
