"""What a pod comes to on nodes of one layout before any amount is looked at."""

from dataclasses import replace

import pytest

from numalign.cache.plan import BOUNDLESS, StepRequest, concerned
from numalign.decision.evaluate import NO_INTENT
from numalign.model.intent import Intent
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.in_columns import plan
from tests.notation import GPU, HUGE, asks, bag, means, node, table

GIB = 2**30
ZONE = "cpu=16 mem=64Gi huge=4Gi gpu=2"
STRICT = node(ZONE, ZONE, policy="restricted")
POD_SCOPE = node(ZONE, ZONE, policy="restricted", scope="pod")
LOOSE = node(ZONE, ZONE, policy="none", scope="pod")
SHARED_CPUS = replace(STRICT, cpu_manager=CpuManager.NONE)
SHARED_MEMORY = replace(STRICT, memory_manager=MemoryManager.NONE)


def amounts(several: tuple[StepRequest, ...]) -> list[dict[str, int]]:
    return [dict(each.amounts) for each in several]


# What is asked, and what is decided as one.


@pytest.mark.parametrize(
    ("one", "pod", "found"),
    table(
        [
            ("some of everything", STRICT, "cpu=2 mem=1Gi gpu=1", {CPU: 2, MEMORY: GIB, GPU: 1}),
            ("hugepages", STRICT, "cpu=2 mem=1Gi huge=1Gi", {CPU: 2, MEMORY: GIB, HUGE: GIB}),
            ("CPUs that are shared", SHARED_CPUS, "cpu=2 mem=1Gi", {MEMORY: GIB}),
            ("memory that is shared", SHARED_MEMORY, "cpu=2 mem=1Gi", {CPU: 2}),
            ("parts of CPUs", STRICT, "cpu=1500m mem=1Gi", {MEMORY: GIB}),
            ("a device that no node has", STRICT, "gpu=1 nic=1", {GPU: 1}),
            ("a pod that is not Guaranteed", STRICT, "cpu=2.. gpu=1", {GPU: 1}),
        ]
    ),
)
def test_of_what_a_container_asks_managers_are_asked_for(one: Node, pod: str, found: dict[str, int]) -> None:
    assert amounts(plan(one, asks(pod)).steps) == [found]


def test_managers_are_asked_in_the_kubelets_order() -> None:
    (step,) = plan(STRICT, asks("cpu=2 mem=1Gi huge=1Gi gpu=1")).steps

    assert [name for name, _ in step.amounts] == [GPU, CPU, HUGE, MEMORY]
    assert step.names == {GPU, CPU, HUGE, MEMORY}


def test_containers_that_ask_for_nothing_do_not_count() -> None:
    found = plan(SHARED_MEMORY, asks("cpu=2 mem=1Gi | cpu=500m mem=1Gi"))

    assert amounts(found.steps) == [{CPU: 2}]
    assert found.decisions == found.steps


TWO = "cpu=2 mem=1Gi | cpu=3 mem=1Gi"


@pytest.mark.parametrize(
    ("one", "decisions"),
    table(
        [
            ("each container by itself", STRICT, [{CPU: 2, MEMORY: GIB}, {CPU: 3, MEMORY: GIB}]),
            ("the pod", POD_SCOPE, [{CPU: 5, MEMORY: 2 * GIB}]),
            ("nothing is aligned, whatever the scope", LOOSE, [{CPU: 2, MEMORY: GIB}, {CPU: 3, MEMORY: GIB}]),
        ]
    ),
)
def test_what_is_decided_as_one(one: Node, decisions: list[dict[str, int]]) -> None:
    found = plan(one, asks(TWO))

    assert amounts(found.decisions) == decisions
    assert amounts(found.steps) == [{CPU: 2, MEMORY: GIB}, {CPU: 3, MEMORY: GIB}]
    assert dict(found.whole.amounts) == {CPU: 5, MEMORY: 2 * GIB}


# What only the rules can say.

BESIDE = "sidecar cpu=1 mem=1Gi huge=1Gi | cpu=1 mem=1Gi"
"""A pod whose hugepages are not those of an app."""


@pytest.mark.parametrize(
    ("one", "pod"),
    table(
        [
            ("an init container leaves something over", STRICT, "init cpu=2 mem=1Gi | cpu=1 mem=1Gi"),
            ("it leaves devices over", STRICT, "init gpu=1 | gpu=1"),
            ("a device is named and not asked for", STRICT, "cpu=2 mem=1Gi gpu=0"),
            ("the pod as a whole asks for no hugepages", POD_SCOPE, BESIDE),
            ("it asks for more than anything has", STRICT, f"cpu=1 mem={BOUNDLESS}"),
        ]
    ),
)
def test_columns_do_not_know_where(one: Node, pod: str) -> None:
    assert plan(one, asks(pod)).unsure


@pytest.mark.parametrize(("one", "unsure"), [(STRICT, True), (SHARED_MEMORY, False)])
def test_a_memory_manager_looks_even_at_a_request_for_nothing(one: Node, *, unsure: bool) -> None:
    demand = asks("cpu=2 mem=1Gi")
    without = replace(demand, steps=tuple(replace(step, memory=bag("")) for step in demand.steps))

    assert plan(one, without).unsure is unsure


@pytest.mark.parametrize(
    ("one", "pod"),
    table(
        [
            ("an init container asks managers for nothing", SHARED_CPUS, "init cpu=2.. | gpu=1"),
            ("a sidecar stays", STRICT, "sidecar cpu=2 mem=1Gi | cpu=1 mem=1Gi"),
            ("a device is named that no node has", STRICT, "cpu=2 mem=1Gi nic=0"),
            ("containers are aligned one by one", STRICT, BESIDE),
            ("nothing is aligned", LOOSE, BESIDE),
            ("all containers ask for the same memory", POD_SCOPE, TWO),
            ("it asks for as much as can be counted", STRICT, f"cpu=1 mem={BOUNDLESS - 1}"),
        ]
    ),
)
def test_columns_know_though(one: Node, pod: str) -> None:
    assert not plan(one, asks(pod)).unsure


# What is refused whatever the amounts.


@pytest.mark.parametrize(
    ("one", "intent", "refused"),
    table(
        [
            ("nothing is asked for", LOOSE, NO_INTENT, False),
            ("the kubelet keeps it", STRICT, means("restricted"), False),
            ("the kubelet aligns nothing", LOOSE, means("restricted"), True),
            ("nothing is promised", LOOSE, means("best-effort"), False),
            ("it is to be the same policy", STRICT, means("single-numa-node", match="equal"), True),
            ("it is the same policy", STRICT, means("restricted", match="equal"), False),
            ("the kubelet does not align what is named", SHARED_CPUS, means("restricted cpu"), True),
            ("a single zone keeps every promise", node(ZONE), means("single-numa-node"), False),
        ]
    ),
)
def test_nodes_of_a_layout_refuse_a_pod_or_not(one: Node, intent: Intent, *, refused: bool) -> None:
    assert plan(one, asks("cpu=2 mem=1Gi"), intent).refused is refused


@pytest.mark.parametrize(
    ("one", "words", "unalignable"),
    table(
        [
            ("a best effort could have been a promise", STRICT, "best-effort", False),
            ("no promise is kept here", LOOSE, "best-effort", True),
            ("none about what is shared", SHARED_CPUS, "best-effort cpu", True),
        ]
    ),
)
def test_an_intent_could_not_be_kept_or_could(one: Node, words: str, *, unalignable: bool) -> None:
    assert plan(one, asks("cpu=2 mem=1Gi"), means(words)).unalignable is unalignable


# What the node as a whole is asked.

ONLY_CPUS = replace(STRICT, totals=bag("cpu=32"))


def test_nodes_that_tell_no_totals_are_asked_for_what_zones_list() -> None:
    found = plan(STRICT, asks("cpu=2 mem=1Gi nic=1"))

    assert dict(found.totals) == {CPU: 2000, MEMORY: GIB}
    assert not found.unlisted


@pytest.mark.parametrize(
    ("one", "pod", "unlisted"),
    table(
        [
            ("a device that no zone lists and no total tells", ONLY_CPUS, "cpu=1 nic=1", True),
            ("a device that a zone lists", ONLY_CPUS, "cpu=1 gpu=1", False),
            ("storage, of which zones know nothing", ONLY_CPUS, "cpu=1 ephemeral-storage=1Gi", False),
            ("a device that nobody would have told of", STRICT, "cpu=1 nic=1", False),
        ]
    ),
)
def test_nodes_have_none_of_what_they_would_have_told(one: Node, pod: str, *, unlisted: bool) -> None:
    assert plan(one, asks(pod)).unlisted is unlisted


# What an intent is about.


@pytest.mark.parametrize(
    ("one", "words", "names"),
    table(
        [
            ("everything", STRICT, "restricted", {CPU, MEMORY, GPU}),
            ("what it names", STRICT, "restricted cpu nic", {CPU}),
            ("what managers keep", SHARED_CPUS, "restricted cpu gpu", {GPU}),
            ("nothing, where nothing is aligned", LOOSE, "restricted", set()),
        ]
    ),
)
def test_an_intent_is_about(one: Node, words: str, names: set[str]) -> None:
    found = plan(one, asks("cpu=2 mem=1Gi gpu=1"))

    assert concerned(found, found.steps[0], means(words)) == names
