"""What pods have to request whose tolerations name nodes with guarantees."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.pod_question import MOST_TOLERATIONS
from numalign.decision.taints import KEYS, TaintContradiction, contradictions
from numalign.model.constraints import Tolerating, Toleration
from numalign.model.demand import PodLevel
from numalign.model.intent import Intent, Policy
from tests.worlds.notation import asks, means, table

DEDICATED, STRICT_CPUS = ("CPUAffinity", "dedicated"), ("NUMACPUAffinity", "strict")
STRICT_MEMORY, PREFERRED = ("NUMAMemoryPolicy", "strict"), ("NUMAMemoryPolicy", "preferred")
WHOLE, HALF, BURSTABLE = "cpu=2 mem=1Gi", "cpu=500m mem=1Gi", "cpu=2.. mem=1Gi.."
SINGLE, RESTRICTED = means("single-numa-node"), means("restricted")


def tolerating(key: str, value: str = "", effect: str = "NoSchedule") -> Toleration:
    return Toleration(key, Tolerating.EQUAL, value, effect)


NONE, SECOND = (f'"{name}" gets no exclusive CPUs' for name in ("c0", "c1"))
NO_CONTAINER = "no container gets exclusive CPUs"

DEMANDED = [
    # the taint,    the pod                    its intent                     what it lacks
    #   exclusive CPUs, with any intent
    (DEDICATED,     WHOLE,                       means("none"),              None),
    (DEDICATED,     f"{WHOLE} | {WHOLE}",        SINGLE,                     None),
    (DEDICATED,     HALF,                        SINGLE,                     f"container {NONE}"),
    (DEDICATED,     BURSTABLE,                   SINGLE,                     f"container {NONE}"),
    (DEDICATED,     f"{WHOLE} | {HALF}",         SINGLE,                     f"container {SECOND}"),
    (DEDICATED,     f"init {HALF} | {WHOLE}",    SINGLE,                     None),
    (DEDICATED,     f"sidecar {HALF} | {WHOLE}", SINGLE,                     f"sidecar {NONE}"),
    #   CPUs of one zone
    (STRICT_CPUS,   WHOLE,                       SINGLE,                     None),
    (STRICT_CPUS,   WHOLE,                       RESTRICTED,                 None),
    (STRICT_CPUS,   WHOLE,                       means("restricted cpu"),    None),
    (STRICT_CPUS,   f"{WHOLE} | {HALF}",         SINGLE,                     None),
    (STRICT_CPUS,   WHOLE,                       means("none"),              "requests no alignment"),
    (STRICT_CPUS,   WHOLE,                       means("best-effort"),       "only best-effort"),
    (STRICT_CPUS,   WHOLE,                       means("restricted memory"), "/resources leaves out cpu"),
    (STRICT_CPUS,   HALF,                        SINGLE,                     NO_CONTAINER),
    #   memory of one zone
    (STRICT_MEMORY, HALF,                        SINGLE,                     None),
    (STRICT_MEMORY, WHOLE,                       means("restricted memory"), None),
    (STRICT_MEMORY, WHOLE,                       means("none"),              "requests no alignment"),
    (STRICT_MEMORY, WHOLE,                       means("restricted cpu"),    "leaves out memory"),
    (STRICT_MEMORY, BURSTABLE,                   SINGLE,                     "the pod is Burstable"),
    #   memory may come from elsewhere
    (PREFERRED,     BURSTABLE,                   means("none"),              None),
]  # fmt: skip


@pytest.mark.parametrize(("taint", "containers", "intent", "lacks"), DEMANDED)
def test_toleration_without_its_request_is_named(
    taint: tuple[str, str], containers: str, intent: Intent, lacks: str | None
) -> None:
    contradicted = contradictions(asks(*containers.split("|")), intent, [tolerating(*taint)])
    assert [each.taint for each in contradicted] == (["=".join(taint)] if lacks else [])
    assert lacks is None or lacks in contradicted[0].lacks


NAMED = [
    # what it shows                               the toleration                                       counts
    ("key and value",                             tolerating("CPUAffinity", "dedicated"),              True),
    ("any effect",                                tolerating("CPUAffinity", "dedicated", "NoExecute"), True),
    ("all values of a key that has one",          Toleration("CPUAffinity", Tolerating.EXISTS),        True),
    ("another value",                             tolerating("CPUAffinity", "shared"),                 False),
    ("all values, of which one requires nothing", Toleration("NUMAMemoryPolicy", Tolerating.EXISTS),   False),
    ("everything, as daemons do",                 Toleration(operator=Tolerating.EXISTS),              False),
    ("a key in another case",                     tolerating("cpuaffinity", "dedicated"),              False),
    ("an operator of a newer API",                Toleration("CPUAffinity", None, "dedicated"),        False),
]  # fmt: skip


@pytest.mark.parametrize(("toleration", "counts"), table(NAMED))
def test_toleration_of_all_taints_has_no_meaning(toleration: Toleration, *, counts: bool) -> None:
    assert bool(contradictions(asks(BURSTABLE), means("none"), [toleration])) is counts


def test_pod_level_resources_are_not_contradicted() -> None:
    whole, shared = asks(WHOLE), asks(BURSTABLE)
    stated = replace(shared, pod_level=PodLevel(whole.steps, whole.whole, frozenset()))
    assert contradictions(shared, means("none"), [tolerating(*DEDICATED)])
    assert contradictions(stated, means("none"), [tolerating(*DEDICATED)]) == ()


def test_each_taint_is_named_once_with_its_remedy() -> None:
    every = [tolerating(*taint) for taint in (STRICT_MEMORY, DEDICATED, PREFERRED, STRICT_CPUS, DEDICATED)]
    first, *others = contradictions(asks(BURSTABLE), means("none"), every)
    assert first.warning == 'it tolerates CPUAffinity=dedicated, but container "c0" gets no exclusive CPUs'
    assert first.refusal == (
        f"{first.warning}. Set equal requests and limits and whole CPUs in every container, or remove the "
        "toleration."
    )
    assert [each.taint for each in others] == ["NUMACPUAffinity=strict", "NUMAMemoryPolicy=strict"]
    assert "Set numalign.io/policy to single-numa-node or restricted" in others[0].refusal


def test_taint_text_is_bounded() -> None:
    named = asks(*[BURSTABLE] * 9)
    long = replace(named, steps=tuple(replace(step, container="x" * 9999) for step in named.steps))
    every = [tolerating(key, value) for key in KEYS for value in ("strict", "dedicated")] * MOST_TOLERATIONS
    contradicted = contradictions(long, means("none"), every)
    assert len(contradicted) == 3
    assert all(len(each.refusal) < 400 and len(each.warning) < 120 for each in contradicted)


pods = st.lists(st.sampled_from([WHOLE, HALF, BURSTABLE, f"init {HALF}"]), max_size=2)
tolerations = st.lists(
    st.builds(
        Toleration,
        st.sampled_from([*KEYS, "", "dedicated"]),
        st.sampled_from([*Tolerating, None]),
        st.sampled_from(["", "strict", "dedicated", "preferred"]),
    ),
    max_size=4,
)
names = st.sampled_from([(), ("cpu",), ("memory",), ("cpu", "memory"), ("*",), ("nvidia.com/gpu",)])


@given(pods, st.sampled_from(Policy), names, tolerations)
def test_request_for_more_is_no_contradiction(
    others: list[str], policy: Policy, resources: tuple[str, ...], every: list[Toleration]
) -> None:
    demand, intent = asks(*others, WHOLE), Intent(policy, resources)
    before = _taints(contradictions(demand, intent, every))
    more = [Intent(tighter, resources) for tighter in Policy if tighter.at_least(policy)]
    more += [Intent(policy), Intent(policy, (*resources, "cpu", "memory"))] if resources else []
    for intent_ in more:
        assert _taints(contradictions(demand, intent_, every)) <= before
    assert _taints(contradictions(asks(*[WHOLE] * (len(others) + 1)), intent, every)) <= before
    assert _taints(contradictions(demand, intent, every[1:])) <= before


def _taints(contradicted: Sequence[TaintContradiction]) -> set[str]:
    return {each.taint for each in contradicted}
