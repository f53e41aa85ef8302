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
    listed = Resources({{"gpu": GPU, "nic": NIC}.get(name, name): n for name, n in amounts.items()})
    pod = Pod("a", "team", containers=(Container("main", requests=listed, limits=listed),))
    return Question(demand.of(pod), SINGLE)


def pod_with(claims: tuple[str, ...] = (), **amounts: int) -> PodQuestion:
    return PodQuestion(question(**amounts), ANYWHERE, UNRULED, "team", StatedBy.POD, None, None, claims)


@pytest.mark.parametrize(
    ("served", "names"), [(set(), ()), ({GPU}, (GPU,)), ({GPU, NIC, "x"}, (GPU, NIC)), ({"x"}, ())]
)
def test_resources_of_dra_are_listed(served: set[str], names: tuple[str, ...]) -> None:
    assert dra.resources(question(gpu=1, nic=1).demand, served) == names


def test_sure_questions_have_no_devices_of_dra() -> None:
    pod_question = question(cpu=4000, memory=2**30, gpu=8, nic=1)

    assert dra.sure(pod_question, {GPU}) == question(cpu=4000, memory=2**30, nic=1)
    assert dra.sure(pod_question, {"x"}) is pod_question


def test_nodes_count_dra_devices_of_their_plugins() -> None:
    pod_question = question(cpu=4000, memory=2**30, gpu=8, nic=1)
    question_by_node = dra.by_node(pod_question, {GPU, "x"})

    assert demand.by_plugins(question_by_node.demand, {NIC}) == question(cpu=4000, memory=2**30, nic=1).demand
    assert demand.by_plugins(question_by_node.demand, {GPU}) is question_by_node.demand
    assert demand.by_plugins(pod_question.demand, set()) is pod_question.demand


def test_the_latest_device_classes_count() -> None:
    pod_question = question(gpu=8, nic=1)
    once = dra.by_node(pod_question, {GPU})

    assert once.demand.by_dra == {GPU}
    assert dra.by_node(once, {GPU, "x"}) is once
    assert dra.by_node(once, {NIC}).demand.by_dra == {NIC}
    assert dra.by_node(once, set()) == pod_question
    assert dra.by_node(pod_question, {"x"}) is pod_question


WARNINGS = {
    # situation: (the pod, what DRA serves, what is not known)
    "nothing of DRA": (pod_with(gpu=1), set(), None),
    "a claim": (pod_with(("gpu",), cpu=1000), set(), 'claim "gpu"'),
    "a resource": (pod_with(gpu=1), {GPU}, GPU),
    "many": (pod_with(("a", "b"), gpu=1, nic=1), {GPU, NIC}, f"{GPU}, {NIC} and 2 more"),
}


@pytest.mark.parametrize(("pod", "served", "unknown"), WARNINGS.values(), ids=WARNINGS)
def test_unknown_alignment_is_warned_of(pod: PodQuestion, served: set[str], unknown: str | None) -> None:
    warning = dra.unknown(pod, served)

    sentence = f"DRA devices give the kubelet no topology hints: alignment of {unknown} is unknown"
    assert warning == (unknown and sentence)
