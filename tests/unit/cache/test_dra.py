"""Devices of which the kubelet's Topology Manager hears nothing."""

import pytest

from numalign.cache import Question, dra
from numalign.cache.pod_question import PodQuestion, StatedBy
from numalign.model import demand
from numalign.model.constraints import ANYWHERE
from numalign.model.intent import UNRULED, Intent, Policy
from numalign.model.pod import Container, Pod
from numalign.model.resources import Resources

GPU, NIC = "nvidia.com/gpu", "rdma/nic"
SINGLE = Intent(Policy.SINGLE_NUMA_NODE)


def question(**amounts: int) -> Question:
    asked = Resources(
        {GPU if name == "gpu" else NIC if name == "nic" else name: n for name, n in amounts.items()}
    )
    pod = Pod("a", "team", containers=(Container("main", requests=asked, limits=asked),))
    return Question(demand.of(pod), SINGLE)


def asked(claims: tuple[str, ...] = (), **amounts: int) -> PodQuestion:
    return PodQuestion(question(**amounts), ANYWHERE, UNRULED, "team", StatedBy.POD, None, None, claims)


@pytest.mark.parametrize(
    ("served", "found"),
    [(set(), ()), ({GPU}, (GPU,)), ({GPU, NIC, "x"}, (GPU, NIC)), ({"x"}, ())],
    ids=["nothing", "one", "both", "another"],
)
def test_what_dra_serves_of_a_pod_is_found(served: set[str], found: tuple[str, ...]) -> None:
    assert dra.resources(question(gpu=1, nic=1).demand, served) == found


def test_what_is_sure_of_a_pod_is_asked_without_the_devices_of_dra() -> None:
    whole = question(cpu=4000, memory=2**30, gpu=8, nic=1)

    assert dra.sure(whole, {GPU}) == question(cpu=4000, memory=2**30, nic=1)
    assert dra.sure(whole, {"x"}) is whole


def test_a_node_is_asked_for_devices_of_dra_that_its_device_plugins_serve() -> None:
    whole = question(cpu=4000, memory=2**30, gpu=8, nic=1)

    asked_ = dra.by_node(whole, {GPU, "x"})

    assert demand.by_plugins(asked_.demand, {NIC}) == question(cpu=4000, memory=2**30, nic=1).demand
    assert demand.by_plugins(asked_.demand, {GPU}) is asked_.demand
    assert demand.by_plugins(whole.demand, set()) is whole.demand


def test_what_dra_serves_is_as_it_was_told_last() -> None:
    whole = question(gpu=8, nic=1)
    once = dra.by_node(whole, {GPU})

    assert once.demand.by_dra == {GPU}
    assert dra.by_node(once, {GPU, "x"}) is once
    assert dra.by_node(once, {NIC}).demand.by_dra == {NIC}
    assert dra.by_node(once, set()) == whole
    assert dra.by_node(whole, {"x"}) is whole


TOLD = {
    # situation: (the pod, what DRA serves, what is not known)
    "nothing of DRA": (asked(gpu=1), set(), None),
    "a claim": (asked(("gpu",), cpu=1000), set(), 'claim "gpu"'),
    "a resource": (asked(gpu=1), {GPU}, GPU),
    "many": (asked(("a", "b"), gpu=1, nic=1), {GPU, NIC}, f"{GPU}, {NIC} and 2 more"),
}


@pytest.mark.parametrize(("pod", "served", "what"), TOLD.values(), ids=TOLD)
def test_whose_alignment_is_not_known_is_told(pod: PodQuestion, served: set[str], what: str | None) -> None:
    told = dra.unknown(pod, served)

    sentence = f"DRA devices give the kubelet no topology hints: alignment of {what} is unknown"
    assert told == (what and sentence)
