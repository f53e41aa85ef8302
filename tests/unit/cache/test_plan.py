"""What follows for a pod from the layouts of a table, before any amount is compared."""

from dataclasses import replace

import pytest

from numalign.cache import Question
from numalign.cache.columns import BOUNDLESS
from numalign.cache.plan import Plans, StepRequest, Undecided
from numalign.decision.evaluate import NO_INTENT
from numalign.model.intent import Intent
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.columns import layout, plan, plans, zone_table
from tests.worlds.notation import GPU, HUGE, NIC, asks, bag, means, node, table

GIB = 2**30
ZONE = "cpu=16 mem=64Gi huge=4Gi gpu=2"
STRICT = node(ZONE, ZONE, policy="restricted")
POD_SCOPE = node(ZONE, ZONE, policy="restricted", scope="pod")
LOOSE = node(ZONE, ZONE, policy="none", scope="pod")
ALONE = node(ZONE)
SHARED_CPUS = replace(STRICT, cpu_manager=CpuManager.NONE)
SHARED_MEMORY = replace(STRICT, memory_manager=MemoryManager.NONE)


def amounts(request: StepRequest) -> dict[str, int]:
    return dict(zip(request.names, request.amounts, strict=True))


REQUESTED = [
    # what it shows                  the node       the pod                      requests, whether one decides
    ("some of everything", STRICT, "cpu=2 mem=1Gi gpu=1", [{CPU: 2, MEMORY: GIB, GPU: 1}], True),
    ("shared CPUs", SHARED_CPUS, "cpu=2 mem=1Gi huge=1Gi", [{MEMORY: GIB, HUGE: GIB}], True),
    ("shared memory", SHARED_MEMORY, "cpu=2 mem=1Gi nic=0", [{CPU: 2}], True),
    ("parts of CPUs", STRICT, "cpu=1500m mem=1Gi", [{MEMORY: GIB}], True),
    ("a device that no node has", STRICT, "gpu=1 nic=1", [{GPU: 1}], True),
    ("a pod that is not Guaranteed", STRICT, "cpu=2.. gpu=1", [{GPU: 1}], True),
    ("several containers",
        SHARED_MEMORY, "cpu=2 mem=1Gi | cpu=500m mem=1Gi gpu=1", [{CPU: 2}, {GPU: 1}], False),
    ("one with requests", SHARED_CPUS, "init cpu=2.. | gpu=1", [{}, {GPU: 1}], True),
    ("nothing at all", STRICT, "cpu=2.. | mem=1Gi..", [{}, {}], True),
    ("a device that is only named", STRICT, "cpu=2 mem=1Gi gpu=0", [{CPU: 2, MEMORY: GIB, GPU: 0}], False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "pod", "requests", "alone"), table(REQUESTED))
def test_managers_are_requested(one: Node, pod: str, requests: list[dict[str, int]], *, alone: bool) -> None:
    made = plan(asks(pod), one)

    assert [amounts(step) for step in made.steps] == requests
    assert (made.only_step is not None) is alone


@pytest.mark.parametrize(
    ("amount", "why"), [(BOUNDLESS, Undecided.AMOUNTS), (BOUNDLESS - 1, None)], ids=["too much", "most"]
)
def test_only_the_rules_decide_huge_amounts(amount: int, why: Undecided | None) -> None:
    assert plan(asks(f"cpu=1 mem={amount}"), STRICT).undecided is why


def test_dra_devices_are_requested_where_plugins_have_them() -> None:
    demand = replace(asks("cpu=1 mem=1Gi gpu=1"), by_dra=frozenset({GPU}))
    without = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
    with_plugin, others = plans(demand, STRICT, without, SHARED_CPUS)

    assert amounts(with_plugin.whole) == {GPU: 1, CPU: 1, MEMORY: GIB}
    assert (with_plugin.meant.tolist(), others.meant.tolist()) == ([True, False, True], [False, True, False])
    assert GPU not in others.question.demand.total


def test_a_plan_is_valid_until_a_layout_comes() -> None:
    made, every = zone_table(STRICT), Plans(Question(asks("cpu=2 mem=1Gi | cpu=3 mem=1Gi"), NO_INTENT))
    (before,) = every.of(made)
    made.add(1, layout(STRICT), STRICT)
    assert every.of(made) == (before,)

    made.add(2, layout(POD_SCOPE), POD_SCOPE)
    (after,) = every.of(made)
    assert (after is before, len(after.every), len(every)) == (False, 2, 2)
    every.of(zone_table(node(*[ZONE] * 3, policy="restricted")))
    assert len(every) == 2


INTENTS = [
    # what it shows the node the intent refused, kept by kubelet
    ("there is none",               LOOSE,       NO_INTENT,                                      False, True),
    ("the kubelet is as strict",    STRICT,      means("restricted"),                            False, True),
    ("it is not", STRICT, means("single-numa-node"), False, False),
    ("it aligns nothing", LOOSE, means("restricted"), True, False),
    ("best-effort binds nothing",   LOOSE,       means("best-effort"),                           False, True),
    ("another policy is refused", STRICT, means("single-numa-node", match="equal"), True, False),
    ("the same is not",             STRICT,      means("restricted", match="equal"),             False, True),
    ("shared CPUs are not aligned", SHARED_CPUS, means("restricted cpu"),                        True,  True),
    ("scopes differ", STRICT, means("restricted", scope="pod"), False, False),
    ("scopes are one",              POD_SCOPE,   means("restricted", scope="pod"),               False, True),
    ("a single zone",               ALONE,       means("single-numa-node"),                      False, True),
]  # fmt: skip


@pytest.mark.parametrize(("one", "intent", "refused", "by_kubelet"), table(INTENTS))
def test_kinds_refuse_an_intent_or_keep_it(
    one: Node, intent: Intent, *, refused: bool, by_kubelet: bool
) -> None:
    made = plan(asks("cpu=2 mem=1Gi"), one, intent=intent)

    assert (made.refused, made.kept_by_kubelet) == ((refused,), (by_kubelet,))


def test_totals_are_compared_for_what_some_node_lists() -> None:
    pod = asks("cpu=2 mem=1Gi nic=1 ephemeral-storage=1Gi")
    more = replace(STRICT, totals=bag("nic=1 ephemeral-storage=9Gi"))

    assert (dict(plan(pod, STRICT).totals), plan(pod, STRICT).unlisted) == ({CPU: 2000, MEMORY: GIB}, (NIC,))
    assert {name for name, _ in plan(pod, STRICT, more).totals} == {CPU, MEMORY, NIC, "ephemeral-storage"}
