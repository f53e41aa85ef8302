"""
Which nodes a pod may go to, as kube-scheduler decides it.

The rows restate k8s.io/component-helpers/scheduling/corev1 (nodeaffinity, ToleratesTaint),
labels.Requirement.Matches of k8s.io/apimachinery, and the scheduler's plugins NodeAffinity, NodeUnschedulable
and TaintToleration.
"""

import pytest

from numalign.model.attributes import NO_EXECUTE, NO_SCHEDULE, Attributes, Labels, Taint
from numalign.model.constraints import (
    ANYWHERE,
    NAME_FIELD,
    Constraints,
    Operator,
    Requirement,
    Term,
    Tolerating,
    Toleration,
    Unmet,
    unmet_ever,
    unmet_now,
)
from tests.worlds.notation import table


def requires(operator: str, *values: str, key: str = "k") -> Requirement:
    return Requirement(key, Operator(operator), frozenset(values))


LABEL = [
    # what it shows                       the requirement           label     whether it holds
    ("one of the values",                 requires("In", "a", "b"), "b",      True),
    ("none of them",                      requires("In", "a", "b"), "c",      False),
    ("no label is no value",              requires("In", "a", ""),  None,     False),
    ("an empty label is a value",         requires("In", ""),       "",       True),
    ("the same value",                    requires("NotIn", "a"),   "a",      False),
    ("no label is not in anything",       requires("NotIn", "a"),   None,     True),
    ("a label that is there",             requires("Exists"),       "",       True),
    ("and one that is not",               requires("Exists"),       None,     False),
    ("a label that must not be there",    requires("DoesNotExist"), None,     True),
    ("and is",                            requires("DoesNotExist"), "",       False),
    ("a larger number",                   requires("Gt", "9"),      "10",     True),
    ("the same number",                   requires("Gt", "9"),      "9",      False),
    ("negative numbers",                  requires("Lt", "-1"),     "-2",     True),
    ("a sign and zeros",                  requires("Gt", "+07"),    "008",    True),
    ("no number",                         requires("Gt", "1"),      "two",    False),
    ("digits of other scripts are none",  requires("Gt", "1"),      "\u0662", False),
    ("underscores are none of Go's here", requires("Gt", "1"),      "1_0",    False),
    ("more than 64 bits",                 requires("Gt", "1"),      "9" * 20, False),
]  # fmt: skip


@pytest.mark.parametrize(("requirement", "label", "holds"), table(LABEL))
def test_label_meets_a_requirement(requirement: Requirement, label: str | None, *, holds: bool) -> None:
    assert requirement.holds({} if label is None else {"k": label}) is holds


SHOWN = [
    (requires("In", "b", "a"), "k in (a,b)"),
    (requires("NotIn", "a"), "k notin (a)"),
    (requires("Exists"), "k"),
    (requires("DoesNotExist"), "!k"),
    (requires("Gt", "1"), "k > 1"),
    (requires("Lt", "1"), "k < 1"),
]


@pytest.mark.parametrize(("requirement", "text"), SHOWN)
def test_requirement_is_written_as_by_kubectl(requirement: Requirement, text: str) -> None:
    assert str(requirement) == text


GPU = Taint("gpu", "a100")
TOLERATING = [
    # what it shows                the toleration                                       tolerates
    ("key, value and effect",      Toleration("gpu", value="a100", effect=NO_SCHEDULE), True),
    ("any effect",                 Toleration("gpu", value="a100"),                     True),
    ("another value",              Toleration("gpu", value="h100"),                     False),
    ("another effect",             Toleration("gpu", value="a100", effect=NO_EXECUTE),  False),
    ("any value",                  Toleration("gpu", Tolerating.EXISTS),                True),
    ("any key",                    Toleration(operator=Tolerating.EXISTS),              True),
    ("an operator of a newer API", Toleration("gpu", None, "any"),                      True),
    ("the same, of another key",   Toleration("x", None),                               False),
]  # fmt: skip


@pytest.mark.parametrize(("toleration", "tolerates"), table(TOLERATING))
def test_toleration_tolerates_a_taint(toleration: Toleration, *, tolerates: bool) -> None:
    assert toleration.tolerates(GPU) is tolerates


POOL, OTHER = requires("In", "gpu", key="pool"), requires("In", "cpu", key="pool")
NAMED, MISNAMED = (Requirement(NAME_FIELD, Operator.IN, frozenset({name})) for name in ("n", "m"))
SELECTING = [
    # what it shows                           the constraints                                     may go
    ("nothing",                               Constraints(),                                      True),
    ("all of a selector must hold",           Constraints((POOL, OTHER)),                         False),
    ("one of several terms",                  Constraints(terms=(Term((OTHER,)), Term((POOL,)))), True),
    ("all of a term must hold",               Constraints(terms=(Term((POOL, OTHER)),)),          False),
    ("no terms hold nowhere",                 Constraints(terms=()),                              False),
    ("a term without anything holds nowhere", Constraints(terms=(Term(),)),                       False),
    ("a name",                                Constraints(terms=(Term(fields=(NAMED,)),)),        True),
    ("another name",                          Constraints(terms=(Term(fields=(MISNAMED,)),)),     False),
    ("both a selector and terms must hold",   Constraints((POOL,), (Term((OTHER,)),)),            False),
]  # fmt: skip


@pytest.mark.parametrize(("constraints", "may"), table(SELECTING))
def test_labels_and_names_select_nodes(constraints: Constraints, *, may: bool) -> None:
    unmet = unmet_ever(constraints, "n", Attributes(Labels({"pool": "gpu"})))
    assert unmet is (None if may else Unmet.AFFINITY)
    assert constraints.selective is (constraints != Constraints())


AWAY = Taint("node.kubernetes.io/not-ready", effect=NO_EXECUTE)
BOTH = Constraints(
    tolerations=(Toleration("gpu", Tolerating.EXISTS), Toleration(AWAY.key, Tolerating.EXISTS))
)
PLAIN, LINUX = Constraints(), Constraints(os="linux")
CONDITIONS = [
    # what it shows the pod the node ever now
    ("the operating system of the pod", LINUX, Attributes(os="linux"), None, None),
    ("another one", LINUX, Attributes(os="windows"), Unmet.OS, Unmet.OS),
    ("an unknown one", LINUX, Attributes(), None, None),
    ("a taint", PLAIN, Attributes(taints=(GPU,)), Unmet.TAINT, Unmet.TAINT),
    ("one that is tolerated", BOTH, Attributes(taints=(GPU,)), None, None),
    ("one of two", BOTH, Attributes(taints=(GPU, Taint("x"))), Unmet.TAINT, Unmet.TAINT),
    ("one that comes and goes", PLAIN, Attributes(taints=(AWAY,)), None, Unmet.TAINT),
    ("a cordoned node", PLAIN, Attributes(cordoned=True), None, Unmet.CORDONED),
    ("a node that is not ready", PLAIN, Attributes(ready=False), None, Unmet.NOT_READY),
    ("a daemon on a node that is not ready", BOTH, Attributes(ready=False), None, None),
    ("a pod that may go anywhere", ANYWHERE, Attributes(taints=(GPU,), cordoned=True), None, None),
]  # fmt: skip


@pytest.mark.parametrize(("constraints", "attributes", "ever", "now"), table(CONDITIONS))
def test_condition_of_a_node_is_temporary(
    constraints: Constraints, attributes: Attributes, ever: Unmet | None, now: Unmet | None
) -> None:
    assert unmet_ever(constraints, "n", attributes) is ever
    assert unmet_now(constraints, "n", attributes) is now
