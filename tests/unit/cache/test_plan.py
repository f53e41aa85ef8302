"""What a pod comes to on the nodes of a table before any amount is looked at."""

from dataclasses import replace

import pytest

from numalign.cache import Question
from numalign.cache.columns import BOUNDLESS
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import Plans, StepRequest, TablePlan, Undecided, concerned
from numalign.decision.evaluate import NO_INTENT
from numalign.model.intent import Intent, Policy
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.in_columns import layout, plan, plans, zone_table
from tests.worlds.notation import GPU, HUGE, NIC, asks, bag, means, node, options, table

GIB = 2**30
ZONE = "cpu=16 mem=64Gi huge=4Gi gpu=2"
STRICT = node(ZONE, ZONE, policy="restricted")
POD_SCOPE = node(ZONE, ZONE, policy="restricted", scope="pod")
LOOSE = node(ZONE, ZONE, policy="none", scope="pod")
SHARED_CPUS = replace(STRICT, cpu_manager=CpuManager.NONE)
SHARED_MEMORY = replace(STRICT, memory_manager=MemoryManager.NONE)


def amounts(request: StepRequest) -> dict[str, int]:
    return dict(zip(request.names, request.amounts, strict=True))


# What containers ask managers for.


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
    (step,) = plan(asks(pod), one).steps

    assert amounts(step) == found


def test_managers_are_asked_in_the_kubelets_order() -> None:
    (step,) = plan(asks("cpu=2 mem=1Gi huge=1Gi gpu=1"), STRICT).steps

    assert step.names == (GPU, CPU, HUGE, MEMORY)
    assert step.memory == {MEMORY: GIB, HUGE: GIB}


def test_containers_are_asked_for_one_by_one_and_as_a_whole() -> None:
    found = plan(asks("cpu=2 mem=1Gi | cpu=500m mem=1Gi gpu=1"), SHARED_MEMORY)

    assert [amounts(step) for step in found.steps] == [{CPU: 2}, {GPU: 1}]
    assert amounts(found.whole) == {CPU: 2, GPU: 1}


@pytest.mark.parametrize(("minor", "counts"), [(37, False), (38, True)])
def test_memory_of_init_containers_alone_counts_in_pod_scope(minor: int, *, counts: bool) -> None:
    one = replace(POD_SCOPE, options=options(minor=minor))
    found = plan(asks("init cpu=1 mem=1Gi huge=1Gi | cpu=2 mem=1Gi"), one)

    assert (HUGE in amounts(found.whole)) is counts


def test_where_kinds_differ_each_gives_out_its_own() -> None:
    (step,) = plan(asks("cpu=2 mem=1Gi gpu=1"), STRICT, SHARED_CPUS, SHARED_MEMORY).steps

    assert step.names == (GPU, CPU, MEMORY)
    assert step.given.tolist() == [[True, True, True], [True, False, True], [True, True, False]]
    assert not step.everywhere
    assert step.only({GPU}).everywhere
    assert amounts(step.only({MEMORY, GPU})) == {GPU: 1, MEMORY: GIB}
    assert step.only({MEMORY}).given.tolist() == [[True, True, False]]


# Where amounts of single zones decide.


@pytest.mark.parametrize(
    ("one", "pod"),
    table(
        [
            ("several containers ask", STRICT, "cpu=2 mem=1Gi | cpu=3 mem=1Gi"),
            ("an init container asks too", STRICT, "init gpu=1 | gpu=1"),
            ("a device is named and not asked for", STRICT, "cpu=2 mem=1Gi gpu=0"),
        ]
    ),
)
def test_more_than_one_step_decides_where(one: Node, pod: str) -> None:
    assert plan(asks(pod), one).only_step is None


@pytest.mark.parametrize(
    ("one", "pod", "found"),
    table(
        [
            ("the others ask managers for nothing", SHARED_CPUS, "init cpu=2.. | gpu=1", {GPU: 1}),
            ("a device is named that no node has", SHARED_MEMORY, "cpu=2 mem=1Gi nic=0", {CPU: 2}),
            ("nobody asks for anything", STRICT, "cpu=2.. | mem=1Gi..", {}),
        ]
    ),
)
def test_one_step_decides_where(one: Node, pod: str, found: dict[str, int]) -> None:
    step = plan(asks(pod), one).only_step

    assert step is not None
    assert amounts(step) == found


@pytest.mark.parametrize(("one", "decides"), [(STRICT, False), (SHARED_MEMORY, True)])
def test_a_memory_manager_looks_even_at_a_request_for_nothing(one: Node, *, decides: bool) -> None:
    demand = asks("cpu=2 mem=1Gi")
    without = replace(demand, steps=tuple(replace(step, memory=bag("")) for step in demand.steps))

    assert (plan(without, one).only_step is not None) is decides


@pytest.mark.parametrize(
    ("pod", "why"),
    table(
        [
            ("it asks for more than anything has", f"cpu=1 mem={BOUNDLESS}", Undecided.AMOUNTS),
            ("it asks for as much as can be counted", f"cpu=1 mem={BOUNDLESS - 1}", None),
            ("it has as many containers as are read of a pod", "|".join(["gpu=1"] * 200), None),
        ]
    ),
)
def test_only_the_rules_can_say(pod: str, why: Undecided | None) -> None:
    assert plan(asks(pod), STRICT).undecided is why


# Nodes that are planned apart.

TWO = asks("cpu=2 mem=1Gi | cpu=3 mem=1Gi")


def policies(found: TablePlan) -> set[Policy]:
    """The policies of the nodes that a plan is for."""
    return {each.config.policy for _, each in found.plans}


def test_nodes_that_decide_containers_together_are_planned_beside_others() -> None:
    (found,) = plans(TWO, STRICT, LOOSE, POD_SCOPE, SHARED_CPUS)

    together = found.kinds.trait(Trait.TOGETHER).tolist()
    assert together == [False, False, True, False], "of policy none each container counts"
    assert found.meant.all()


def test_one_container_is_decided_about_alike_everywhere() -> None:
    found = plan(asks("cpu=2 mem=1Gi"), STRICT, LOOSE, POD_SCOPE)

    assert policies(found) == {Policy.RESTRICTED, Policy.NONE}
    assert found.meant.all()


def test_devices_of_claims_are_asked_of_nodes_whose_plugins_have_them() -> None:
    demand = replace(asks("cpu=1 mem=1Gi gpu=1"), by_dra=frozenset({GPU}))
    without = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
    with_plugin, others = plans(demand, STRICT, without, SHARED_CPUS)

    assert amounts(with_plugin.whole) == {GPU: 1, CPU: 1, MEMORY: GIB}
    assert with_plugin.meant.tolist() == [True, False, True]
    assert GPU not in others.question.demand.total
    assert others.meant.tolist() == [False, True, False]


# Tables change.


def test_a_plan_holds_until_a_layout_comes() -> None:
    made, every = zone_table(STRICT), Plans(Question(TWO, NO_INTENT))
    (before,) = every.of(made)
    assert every.of(made) == (before,)

    made.add(1, layout(STRICT), STRICT)
    assert every.of(made) == (before,)

    made.add(2, layout(POD_SCOPE), POD_SCOPE)
    (after,) = every.of(made)
    assert after is not before
    assert len(after.every) == len(before.every) + 1


def test_kinds_that_tables_share_are_planned_once() -> None:
    every = Plans(Question(TWO, NO_INTENT))
    (one,), (two,) = (
        every.of(zone_table(STRICT)),
        every.of(zone_table(node(*[ZONE] * 3, policy="restricted"))),
    )

    assert one.every == two.every
    assert len(every) == 1
    every.of(zone_table(LOOSE))
    assert len(every) == 2


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
def test_nodes_refuse_a_pod_or_not(one: Node, intent: Intent, *, refused: bool) -> None:
    assert plan(asks("cpu=2 mem=1Gi"), one, intent=intent).refused == (refused,)


def test_each_kind_refuses_for_itself() -> None:
    assert plan(asks("cpu=2 mem=1Gi"), STRICT, LOOSE, intent=means("restricted")).refused == (False, True)


@pytest.mark.parametrize(
    ("one", "intent", "kept"),
    table(
        [
            ("nothing is promised", LOOSE, NO_INTENT, True),
            ("a best effort binds nobody", LOOSE, means("best-effort"), True),
            ("the policy is as strict", STRICT, means("restricted"), True),
            ("it is not", STRICT, means("single-numa-node"), False),
            ("scopes differ", STRICT, means("restricted", scope="pod"), False),
            ("scopes are one", POD_SCOPE, means("restricted", scope="pod"), True),
            ("there is one zone", node(ZONE, policy="none"), means("single-numa-node"), True),
        ]
    ),
)
def test_kubelets_keep_an_intent_by_themselves_or_not(one: Node, intent: Intent, *, kept: bool) -> None:
    assert plan(asks("cpu=2 mem=1Gi"), one, intent=intent).kept_by_kubelet == (kept,)


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
    (found,) = plan(asks("cpu=2 mem=1Gi"), one, intent=means(words)).every

    assert found.unalignable is unalignable


# What the node as a whole is asked.

TOLD = replace(STRICT, totals=bag("cpu=32"))


def test_nodes_are_asked_for_what_some_of_them_list() -> None:
    pod = asks("cpu=2 mem=1Gi nic=1 ephemeral-storage=1Gi")

    assert dict(plan(pod, STRICT).totals) == {CPU: 2000, MEMORY: GIB}
    more = replace(STRICT, totals=bag("nic=1 ephemeral-storage=9Gi"))
    assert {name for name, _ in plan(pod, STRICT, more).totals} == {CPU, MEMORY, NIC, "ephemeral-storage"}


@pytest.mark.parametrize(
    ("pod", "unlisted"),
    table(
        [
            ("a device that nobody lists", "cpu=1 nic=1", (NIC,)),
            ("a device that a zone lists", "cpu=1 gpu=1", ()),
            ("storage, of which zones know nothing", "cpu=1 ephemeral-storage=1Gi", ()),
        ]
    ),
)
def test_nodes_would_have_listed(pod: str, unlisted: tuple[str, ...]) -> None:
    assert plan(asks(pod), TOLD).unlisted == unlisted


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
    found = plan(asks("cpu=2 mem=1Gi gpu=1"), one)

    assert concerned(found.every[0], found.steps[0].step, means(words)) == names
