"""What is asked of the pods in a namespace, and which pods are left alone."""

import pytest

from numalign.kube.effective_policy import DISABLED, EffectivePolicy
from numalign.kube.files.policy import NAME_LABEL, ClusterPolicy, Default, Exemptions
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from tests.worlds.notation import table

SINGLE, RESTRICTED = Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED
GOLD = Default((Requirement("tier", Operator.IN, frozenset({"gold"})),), NamespaceRules(default=SINGLE))
NAMED = Default((Requirement(NAME_LABEL, Operator.IN, frozenset({"new"})),), NamespaceRules(warn=SINGLE))
FILE = ClusterPolicy((GOLD, NAMED), Exemptions(("ci:*",), frozenset({"batch", "away"}), frozenset({"kata"})))
OWN, AWAY = NamespaceRules(default=RESTRICTED), NamespaceRules(disabled=True)
GOLDEN = {name: {"tier": "gold"} for name in ("gold", "own", "away")}
RULES = {"plain": UNRULED, "gold": UNRULED, "own": OWN, "away": AWAY}


@pytest.mark.parametrize(("namespace", "rules"), table([
    ("nothing is asked",                        "plain", UNRULED),
    ("the policy asks",                         "gold",  NamespaceRules(default=SINGLE)),
    ("its own labels come first",               "own",   NamespaceRules(default=RESTRICTED)),
    ("it is disabled",                          "away",  NamespaceRules(disabled=True)),
    ("it is not known, and the policy asks",    "new",   NamespaceRules(warn=SINGLE)),
    ("it is not known",                         "other", UNRULED),
]))  # fmt: skip
def test_rules_of_a_namespace(namespace: str, rules: NamespaceRules) -> None:
    assert EffectivePolicy(FILE, RULES, GOLDEN).rules_for(namespace) == rules


def test_no_namespace_has_no_rules() -> None:
    everywhere = ClusterPolicy((Default((), NamespaceRules(warn=SINGLE)),))
    rules_for = EffectivePolicy(everywhere, RULES, GOLDEN).rules_for
    assert (rules_for(""), rules_for("any")) == (UNRULED, NamespaceRules(warn=SINGLE))


@pytest.mark.parametrize(("namespace", "runtime_class", "user", "reason"), table([
    # why                                     namespace runtime class user      reason
    ("its namespace is disabled",             "away",   "kata",       "ci:x",   DISABLED),
    ("its namespace stands in the policy",    "batch",  "",           "",       "namespaces: batch"),
    ("its runtime class stands there",        "plain",  "kata",       "",       "runtimeClasses: kata"),
    ("its user does",                         "plain",  "runc",       "ci:x",   "users: ci:*"),
    ("nothing of it does",                    "gold",   "runc",       "me",     None),
    ("only a part of its names does",         "batches", "kata2",     "xci:x",  None),
    ("it has no names",                       "",       "",           "",       None),
]))  # fmt: skip
def test_exemptions_of_a_pod(namespace: str, runtime_class: str, user: str, reason: str | None) -> None:
    policy = EffectivePolicy(FILE, RULES, GOLDEN)
    assert policy.exemption(namespace, runtime_class=runtime_class, user=user) == reason


LIMITS = {"own": NamespaceRules(exclusive_cpus=8),
    "loose": NamespaceRules(exclusive_cpus=1000), "away": NamespaceRules(exclusive_cpus=50, disabled=True),
    "batch": NamespaceRules(exclusive_cpus=8)}  # fmt: skip
LARGE = Requirement(NAME_LABEL, Operator.IN, frozenset({"large"}))
EVERYWHERE = ClusterPolicy(
    (Default((LARGE,), NamespaceRules(exclusive_cpus=40)), Default((), NamespaceRules(warn=SINGLE)),
        Default((), NamespaceRules(exclusive_cpus=20))),
    Exemptions(namespaces=frozenset({"batch"})),
)  # fmt: skip


@pytest.mark.parametrize(("namespace", "alone", "both"), table([
    # why                                          namespace  by labels  with the policy
    ("its label is stricter",                      "own",     8,         8),
    ("a disabled namespace has the limit of the policy",     "away",    50,        20),
    ("the policy exempts it",                      "batch",   8,         None),
    ("the policy limits all",                      "other",   None,      20),
    ("its label is looser",                        "loose",   1000,      20),
    ("the first entry of the policy with a limit", "large",   None,      40),
    ("nothing is known of where the pods will be", "",        None,      None),
]))  # fmt: skip
def test_limits_of_exclusive_cpus(namespace: str, alone: int | None, both: int | None) -> None:
    assert EffectivePolicy(rules=LIMITS).exclusive_cpus(namespace) == alone
    assert EffectivePolicy(EVERYWHERE, LIMITS).exclusive_cpus(namespace) == both
