"""What is written into which pod, as tables: read them to learn the patch."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from numalign.cache.pod_question import MOST_TERMS, ExceededLimit
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import NODE_LABEL
from numalign.model.node import node_label
from tests.worlds.notation import table
from webhook.patch import LONGEST_PATCH, Mode, Operation, Unsteered, avoid, hold, inject, route, whole

CLASS = "numalign.io/class"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"

Raw = dict[str, Any]


def expr(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


def all_of(*expressions: Raw) -> Raw:
    return {"matchExpressions": list(expressions)}


def with_nodes(node_affinity: object) -> Raw:
    return {"spec": {"affinity": {"nodeAffinity": node_affinity}}}


def required(*terms: Raw) -> Raw:
    return with_nodes({REQUIRED: {"nodeSelectorTerms": list(terms)}})


def wire(operations: tuple[Operation, ...]) -> Any:  # noqa: ANN401 - JSON, to compare with literals
    return orjson.loads(orjson.dumps(operations))


NOT_AB = Requirement(CLASS, Operator.NOT_IN, frozenset("ab"))
IN_AB = Requirement(CLASS, Operator.IN, frozenset("ab"))

no_ab = expr(CLASS, "NotIn", "a", "b")
in_ab = expr(CLASS, "In", "a", "b")
zone = expr("zone", "In", "z")

NOT_ON = expr("metadata.name", "NotIn", "n")
OUR_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [no_ab]}]}
OUR_REQUIRED = {REQUIRED: OUR_TERMS}
OUR_AFFINITY = {"nodeAffinity": OUR_REQUIRED}
OUR_WISH = {"weight": 100, "preference": {"matchExpressions": [in_ab]}}

OTHERS = {
    "weight": 100,
    "preference": {"matchFields": [expr("metadata.name", "NotIn", "a"), expr("metadata.name", "NotIn", "b")]},
}
"""Each name in a requirement of its own: of several in one, an API server refuses the pod."""
OURS, ANOTHERS = {"name": "ours"}, {"name": "example.com/quota"}
BESIDE = with_nodes({PREFERRED: [{**OUR_WISH, "weight": 1}]})
Write = Callable[[Raw], tuple[Operation, ...]]


def exclude(pod: Raw) -> tuple[Operation, ...]:
    return inject(pod, NOT_AB, mode=Mode.EXCLUDE)


def prefer(pod: Raw) -> tuple[Operation, ...]:
    return inject(pod, IN_AB, mode=Mode.PREFER)


def others(pod: Raw) -> tuple[Operation, ...]:
    return avoid(pod, ["a", "b"])


def gate(pod: Raw) -> tuple[Operation, ...]:
    return (hold(pod["spec"], "ours"),)


NODES, WISHES = "affinity/nodeAffinity", f"affinity/nodeAffinity/{PREFERRED}"
ADDED: list[tuple[str, Write, Raw, str, object]] = [
    # what is written where                 the pod                                      path, value
    ("an exclusion without affinity", exclude, {"spec": {}}, "affinity", OUR_AFFINITY),
    ("an exclusion for null",               exclude, with_nodes(None),                   NODES, OUR_REQUIRED),
    ("an exclusion beside preferences", exclude, BESIDE, f"{NODES}/{REQUIRED}", OUR_TERMS),
    ("the first preference",                prefer, with_nodes({}),                      WISHES, [OUR_WISH]),
    ("a preference beside the owner's", prefer, BESIDE, f"{WISHES}/-", OUR_WISH),
    ("a wish for other nodes beside the owner's", others, BESIDE, f"{WISHES}/-", OTHERS),
    ("the first gate", gate, {"spec": {}}, "schedulingGates", [OURS]),
    ("a gate beside others", gate, {"spec": {"schedulingGates": [ANOTHERS]}}, "schedulingGates/-", OURS),
    ("a scheduler", lambda _: (route("x"),), {"spec": {}}, "schedulerName", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "pod", "path", "value"), table(ADDED))
def test_one_operation_adds(write: Write, pod: Raw, path: str, value: object) -> None:
    assert wire(write(pod)) == [{"op": "add", "path": f"/spec/{path}", "value": value}]


TIGHTENED = [
    # what happens, the owner's terms, what is asked, operations below nodeSelectorTerms
    ("is appended to every term", [all_of(zone), all_of(zone, zone)], NOT_AB,
        [("add", "/0/matchExpressions/-", no_ab), ("add", "/1/matchExpressions/-", no_ab)]),
    ("makes the list in a term of fields only", [{"matchFields": [NOT_ON]}], NOT_AB,
        [("add", "/0/matchExpressions", [no_ab])]),


    ("widens an exclusion by what is new", [all_of(zone, expr(CLASS, "NotIn", "c", "a"))], NOT_AB,
        [("replace", "/0/matchExpressions/1", expr(CLASS, "NotIn", "a", "b", "c"))]),
    ("leaves the owner's wider inclusion and stands beside it", [all_of(expr(CLASS, "In", "a", "b", "c"))],
        IN_AB, [("add", "/0/matchExpressions/-", in_ab)]),
    ("is needless beside a narrower inclusion", [all_of(expr(CLASS, "In", "a"))], IN_AB, []),
    ("is needless where the owner includes only others", [all_of(expr(CLASS, "In", "c"))], NOT_AB, []),
]  # fmt: skip


@pytest.mark.parametrize(("terms", "requirement", "expected"), table(TIGHTENED))
def test_the_requirement(
    terms: list[Raw], requirement: Requirement, expected: list[tuple[str, str, object]]
) -> None:
    mode = Mode.EXCLUDE if requirement.operator is Operator.NOT_IN else Mode.INCLUDE
    assert wire(inject(required(*terms), requirement, mode=mode)) == [
        {"op": op, "path": TERMS + path, "value": value} for op, path, value in expected
    ]


LONG = "worker-" * 10 + "1"


def test_preference_names_nodes_by_label_if_they_have_it() -> None:
    [wish] = wire(avoid({"spec": {}}, ["a", "b", LONG], labelled={"a", LONG}))

    [term] = wish["value"]["nodeAffinity"][PREFERRED]
    assert term["preference"] == {
        "matchExpressions": [expr(NODE_LABEL, "NotIn", "a", node_label(LONG))],
        "matchFields": [expr("metadata.name", "NotIn", "b")],
    }


def test_nothing_is_written_without_classes_or_nodes() -> None:
    assert avoid({"spec": {}}, []) == ()
    assert inject({"spec": {}}, NOT_AB, mode=Mode.OFF) == ()
    assert inject({"spec": {}}, Requirement(CLASS, Operator.NOT_IN), mode=Mode.EXCLUDE) == ()


EXISTS = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}


@pytest.mark.parametrize("write", [exclude, others], ids=["injection", "avoidance"])
def test_more_terms_than_supported_prevent(write: Write) -> None:
    with pytest.raises(Unsteered, match=f"^{ExceededLimit.TERMS}$"):
        write(required(*[EXISTS] * (MOST_TERMS + 1)))


def test_a_patch_may_be_so_long_and_no_longer() -> None:
    few, many = (
        Requirement(CLASS, Operator.NOT_IN, frozenset(f"{number:063}" for number in range(count)))
        for count in (10, 100)
    )
    pod = required(*[EXISTS] * MOST_TERMS)

    assert len(inject(pod, few, mode=Mode.EXCLUDE)) == MOST_TERMS
    with pytest.raises(Unsteered, match="longer than 524288 bytes"):
        inject(pod, many, mode=Mode.EXCLUDE)


def test_parts_of_a_patch_are_as_long_together_as_one() -> None:
    half = Operation("add", "/spec/x", "v" * (LONGEST_PATCH // 2 - 100))
    assert whole([half, half]) == (half, half)
    with pytest.raises(Unsteered):
        whole([half, half, route("n" * 200)])


BAD_VALUES = Requirement(CLASS, Operator.IN, frozenset({"a b", "c,"}))
IMPOSSIBLE = [
    (Requirement("-x", Operator.IN, frozenset("a")), Mode.INCLUDE, "no label can have the key '-x'"),
    (BAD_VALUES, Mode.INCLUDE, "no label can have the value 'a b', value 'c,'"),
    (IN_AB, Mode.EXCLUDE, "mode exclude cannot write In"),
    (NOT_AB, Mode.INCLUDE, "mode include cannot write NotIn"),
]


@pytest.mark.parametrize(("requirement", "mode", "message"), IMPOSSIBLE)
def test_impossible_requirement_is_an_error(requirement: Requirement, mode: Mode, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        inject({"spec": {}}, requirement, mode=mode)
