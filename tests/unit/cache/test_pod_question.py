"""What can be told of a pod by who asks, and for what."""

from dataclasses import replace

import pytest

from numalign.cache import Question
from numalign.cache.pod_question import PodQuestion, StatedBy
from numalign.model.constraints import ANYWHERE, Constraints, Tolerating, Toleration
from numalign.model.intent import UNRULED, Intent, NamespaceRules, Policy, Scope
from tests.worlds.notation import asks, table

SINGLE, NONE = Policy.SINGLE_NUMA_NODE, Policy.NONE
WARNED, DEFAULT = NamespaceRules(warn=SINGLE), NamespaceRules(default=SINGLE)

STATED = [
    # what it shows                         policy  by            rules    stated asks   opted  silent
    ("nobody asks",                         NONE,   None,         UNRULED, (False, False, False, True)),
    ("nobody asks where there is a wish",   NONE,   None,         WARNED,  (False, False, False, False)),
    ("nobody asks, and a default is none",  NONE,   StatedBy.NAMESPACE, UNRULED, (True, False, False, False)),
    ("a default asks",                      SINGLE, StatedBy.NAMESPACE, DEFAULT, (True, True, False, False)),
    ("the pod asks",                        SINGLE, StatedBy.POD,       UNRULED, (True, True, False, False)),
    ("the pod opts out",                    NONE,   StatedBy.POD,       DEFAULT, (True, False, True,  False)),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "by", "rules", "facts"), table(STATED))
def test_a_pod_states_a_policy_or_not(
    policy: Policy, by: StatedBy | None, rules: NamespaceRules, facts: tuple[bool, ...]
) -> None:
    question = Question(asks("cpu=2 mem=1Gi"), Intent(policy))
    pod = PodQuestion(question, ANYWHERE, rules, "team", by, pin=None, excess=None)

    assert pod.policy is policy
    assert (pod.stated, pod.requests_alignment, pod.opted_out, pod.silent) == facts


TOLERATED = [
    # what it shows                          the toleration                                    silent
    ("a taint that says what nodes are for", Toleration("CPUAffinity", value="dedicated"),     False),
    ("whatever its value",                   Toleration("NUMAMemoryPolicy", Tolerating.EXISTS), False),
    ("everything",                           Toleration(operator=Tolerating.EXISTS),           True),
    ("another taint",                        Toleration("dedicated", value="gpu"),             True),
]  # fmt: skip


@pytest.mark.parametrize(("toleration", "silent"), table(TOLERATED))
def test_tolerations_state_something_or_not(toleration: Toleration, *, silent: bool) -> None:
    question = Question(asks("cpu=2 mem=1Gi"), Intent(NONE))
    tolerant = Constraints(tolerations=(toleration,))

    assert PodQuestion(question, tolerant, UNRULED, "team", None, pin=None, excess=None).silent is silent


RESTRICTED, FEW = Policy.RESTRICTED, ("cpu",)
POD_WIDE, ALONE = Intent(SINGLE, scope=Scope.POD), Intent(SINGLE, exclusive=True)
RAISED = [
    # what it shows             enforced    intent                               left out, and what counts
    ("nothing is enforced",     None,       Intent(NONE),                        (), Intent(NONE)),
    ("the level is met",        RESTRICTED, Intent(SINGLE, FEW),                 (), Intent(SINGLE, FEW)),
    ("it asks for nothing",     RESTRICTED, Intent(NONE),                        (), Intent(RESTRICTED)),
    ("it asks for less",        SINGLE,     Intent(RESTRICTED, scope=Scope.POD), (), POD_WIDE),
    ("it leaves something out", RESTRICTED, Intent(SINGLE, FEW),                 ("gpu",), Intent(SINGLE)),
    ("it is to be alone",       RESTRICTED, Intent(SINGLE, FEW, exclusive=True), ("gpu",), ALONE),
]  # fmt: skip


@pytest.mark.parametrize(("level", "intent", "left_out", "counts"), table(RAISED))
def test_a_pod_is_raised_to_the_enforced_level(
    level: Policy | None, intent: Intent, left_out: tuple[str, ...], counts: Intent
) -> None:
    question, rules = Question(asks("cpu=2 mem=1Gi"), intent), NamespaceRules(enforce=level)
    pod = PodQuestion(question, ANYWHERE, rules, "team", StatedBy.POD, pin=None, excess=None)

    raised = replace(pod, left_out=left_out).raised()

    assert (raised.question.intent, raised.question.demand) == (counts, question.demand)
    assert level is None or not raised.requests_less_than(level)


def test_what_no_kubelet_aligns_meets_every_level() -> None:
    question = Question(asks("mem=1Gi"), Intent(NONE))
    pod = PodQuestion(question, ANYWHERE, NamespaceRules(enforce=SINGLE), "team", None, pin=None, excess=None)

    assert pod.raised() is pod
