"""What is written into which pod, as tables: read them to learn the patch."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from numalign.cache.pod_question import MOST_TERMS, ExceededLimit, Pin, PinReason
from numalign.kube.decode.scheduling import scheduling
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import NODE_LABEL
from numalign.model.node import node_label
from tests.worlds.json_patch import applied
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


def on_node(*names: str, operator: str = "In") -> Raw:
    return {"matchFields": [expr("metadata.name", operator, *names)]}


def not_on(name: str) -> Raw:
    return on_node(name, operator="NotIn")


def with_affinity(affinity: object) -> Raw:
    return {"spec": {"affinity": affinity}}


def with_nodes(node_affinity: object) -> Raw:
    return with_affinity({"nodeAffinity": node_affinity})


def required(*terms: Raw) -> Raw:
    return with_nodes({REQUIRED: {"nodeSelectorTerms": list(terms)}})


def preferred(*terms: Raw) -> Raw:
    return with_nodes({PREFERRED: list(terms)})


def owned_by(kind: str, version: str, *, controller: object = True) -> Raw:
    owner = {"kind": kind, "apiVersion": version, "controller": controller}
    return {"metadata": {"ownerReferences": [owner]}, "spec": {}}


def wire(operations: tuple[Operation, ...]) -> Any:  # noqa: ANN401 - JSON, to compare with literals
    return orjson.loads(orjson.dumps(operations))


NOT_AB = Requirement(CLASS, Operator.NOT_IN, frozenset("ab"))
IN_AB = Requirement(CLASS, Operator.IN, frozenset("ab"))

no_ab = expr(CLASS, "NotIn", "a", "b")
in_ab = expr(CLASS, "In", "a", "b")
zone = expr("zone", "In", "z")

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
Write = Callable[[Raw], tuple[Operation, ...]]


def exclude(pod: Raw) -> tuple[Operation, ...]:
    return inject(pod, NOT_AB, mode=Mode.EXCLUDE)


def prefer(pod: Raw) -> tuple[Operation, ...]:
    return inject(pod, IN_AB, mode=Mode.PREFER)


def others(pod: Raw) -> tuple[Operation, ...]:
    return avoid(pod, ["a", "b"])


def gate(pod: Raw) -> tuple[Operation, ...]:
    return (hold(pod["spec"], "ours"),)


def gates(listed: object) -> Raw:
    return {"spec": {"schedulingGates": listed}}


NODES, WISHES = "affinity/nodeAffinity", f"affinity/nodeAffinity/{PREFERRED}"
ADDED: list[tuple[str, Write, Raw, str, object]] = [
    # what is written where                 the pod                                      path, value
    ("an exclusion without affinity", exclude, {"spec": {}}, "affinity", OUR_AFFINITY),
    ("an exclusion in an empty affinity",   exclude, with_affinity({}),                  NODES, OUR_REQUIRED),
    ("an exclusion for null",               exclude, with_nodes(None),                   NODES, OUR_REQUIRED),
    ("an exclusion beside preferences", exclude, preferred({"weight": 1}), f"{NODES}/{REQUIRED}", OUR_TERMS),
    ("the first preference",                prefer, with_nodes({}),                      WISHES, [OUR_WISH]),
    ("a preference beside the owner's", prefer, preferred({"weight": 1}), f"{WISHES}/-", OUR_WISH),
    ("a preference beside another weight",
        prefer, preferred({**OUR_WISH, "weight": 1}), f"{WISHES}/-", OUR_WISH),
    ("a wish for other nodes", others, with_affinity({}), NODES, {PREFERRED: [OTHERS]}),
    ("a wish for other nodes beside the owner's", others, preferred({"weight": 100}), f"{WISHES}/-", OTHERS),
    ("the first gate", gate, {"spec": {}}, "schedulingGates", [OURS]),
    ("a gate for null", gate, gates(None), "schedulingGates", [OURS]),
    ("a gate in an empty list", gate, gates([]), "schedulingGates/-", OURS),
    ("a gate beside others", gate, gates([ANOTHERS]), "schedulingGates/-", OURS),
    ("a scheduler", lambda _: (route("x"),), {"spec": {}}, "schedulerName", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "pod", "path", "value"), table(ADDED))
def test_one_operation_adds(write: Write, pod: Raw, path: str, value: object) -> None:
    assert wire(write(pod)) == [{"op": "add", "path": f"/spec/{path}", "value": value}]


TIGHTENED = [
    # what happens, the owner's terms, what is asked, operations below nodeSelectorTerms
    ("is appended to every term", [all_of(zone), all_of(zone, zone)], NOT_AB,
        [("add", "/0/matchExpressions/-", no_ab), ("add", "/1/matchExpressions/-", no_ab)]),
    ("leaves an empty term alone", [{}, all_of(zone), all_of()], NOT_AB,
        [("add", "/1/matchExpressions/-", no_ab)]),
    ("leaves a pod alone whose terms are all empty", [{}, {"matchExpressions": None}], NOT_AB, []),
    ("makes the list in a term of fields only", [not_on("n")], NOT_AB,
        [("add", "/0/matchExpressions", [no_ab])]),

    ("finds its own work of an earlier pass", [all_of(zone, no_ab)], NOT_AB, []),
    ("patches only the term that lacks it", [all_of(no_ab), all_of(zone)], NOT_AB,
        [("add", "/1/matchExpressions/-", no_ab)]),

    ("widens an exclusion by what is new", [all_of(zone, expr(CLASS, "NotIn", "c", "a"))], NOT_AB,
        [("replace", "/0/matchExpressions/1", expr(CLASS, "NotIn", "a", "b", "c"))]),
    ("leaves the owner's wider inclusion and stands beside it", [all_of(expr(CLASS, "In", "a", "b", "c"))],
        IN_AB, [("add", "/0/matchExpressions/-", in_ab)]),
    ("is needless beside a narrower inclusion", [all_of(expr(CLASS, "In", "a"))], IN_AB, []),
    ("stands beside an inclusion of what it excludes", [all_of(expr(CLASS, "In", "a", "c"))], NOT_AB,
        [("add", "/0/matchExpressions/-", no_ab)]),
    ("is needless where the owner includes only others", [all_of(expr(CLASS, "In", "c"))], NOT_AB, []),
    ("minds its own key only", [all_of(expr("zone", "NotIn", "a", "b"))], NOT_AB,
        [("add", "/0/matchExpressions/-", no_ab)]),
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


@pytest.mark.parametrize("mode", [Mode.EXCLUDE, Mode.PREFER])
def test_preference_keeps_the_injected_requirement(mode: Mode) -> None:
    first = inject({"spec": {}}, NOT_AB, mode=mode)
    [wish] = wire(avoid({"spec": {}}, ["a", "b"], after=first))
    assert wish["path"] == f"/spec/affinity/nodeAffinity/{PREFERRED}" + ("/-" if mode is Mode.PREFER else "")


def test_nothing_is_written_without_classes_or_nodes() -> None:
    assert avoid({"spec": {}}, []) == ()
    assert inject({"spec": {}}, NOT_AB, mode=Mode.OFF) == ()
    assert inject({"spec": {}}, Requirement(CLASS, Operator.NOT_IN), mode=Mode.EXCLUDE) == ()


DAEMON = owned_by("DaemonSet", "apps/v1")
PINNED = [
    # who placed it            the pod                                            node, why
    ("somebody, by name",       {"spec": {"nodeName": "n"}},                      "n", PinReason.NODE_NAME),
    ("a DaemonSet",             DAEMON | required(on_node("n")),                  "n", PinReason.DAEMON_SET),
    ("affinity to a name",      required(on_node("n")),                           "n", PinReason.NODE_FIELD),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "node", "why"), table(PINNED))
def test_a_pod_is_pinned_and_not_patched_when_placed_by(pod: Raw, node: str | None, why: PinReason) -> None:
    assert scheduling(pod).pin == Pin(node, why)
    for requirement, mode in [(NOT_AB, Mode.EXCLUDE), (IN_AB, Mode.INCLUDE), (IN_AB, Mode.PREFER)]:
        assert inject(pod, requirement, mode=mode) == ()


FREE = [
    ("of a ReplicaSet",                      owned_by("ReplicaSet", "apps/v1")),
    ("of a DaemonSet that does not control", owned_by("DaemonSet", "apps/v1", controller=False)),
    ("that may not run on one node",         required(not_on("n"))),
    ("that names a node, or else a zone",    required(on_node("n"), all_of(zone))),
]  # fmt: skip


@pytest.mark.parametrize("pod", table(FREE))
def test_a_pod_is_not_pinned(pod: Raw) -> None:
    assert scheduling(pod).pin is None
    assert inject(pod, NOT_AB, mode=Mode.EXCLUDE) != ()


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


def test_scheduler_replaces_the_api_server_default() -> None:
    for spec in ({}, {"schedulerName": "default-scheduler"}, {"schedulerName": None}):
        assert applied({"spec": spec}, [route("second")]) == {"spec": {"schedulerName": "second"}}


def test_parts_of_a_patch_are_as_long_together_as_one() -> None:
    half = Operation("add", "/spec/x", "v" * (LONGEST_PATCH // 2 - 100))
    assert whole([half, half]) == (half, half)
    with pytest.raises(Unsteered):
        whole([half, half, route("n" * 200)])


IMPOSSIBLE = [
    ("numalign.io/class/x", ("a",),        "no label can have the key 'numalign.io/class/x'"),
    ("",                    ("a",),        "no label can have the key ''"),
    ("-x",                  ("a",),        "no label can have the key '-x'"),
    (f"{'d' * 254}/class",  ("a",),        f"no label can have the key '{'d' * 254}/class'"),
    (CLASS,                 ("a b", "c,"), "no label can have the value 'a b', value 'c,'"),
    (CLASS,                 ("é",),        "no label can have the value 'é'"),
    (CLASS,                 ("v" * 64,),   f"no label can have the value '{'v' * 64}'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "values", "message"),
    IMPOSSIBLE,
    ids=[f"{key[:20]} {values[0][:9]}" for key, values, _ in IMPOSSIBLE],
)
def test_value_that_no_label_can_have_is_an_error(key: str, values: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match="no label") as caught:
        inject({"spec": {}}, Requirement(key, Operator.IN, frozenset(values)), mode=Mode.INCLUDE)
    assert str(caught.value) == message


@pytest.mark.parametrize(("requirement", "mode"), [(IN_AB, Mode.EXCLUDE), (NOT_AB, Mode.INCLUDE)])
def test_a_mode_and_its_opposite_do_not_mix(requirement: Requirement, mode: Mode) -> None:
    with pytest.raises(ValueError, match=f"mode {mode} cannot write {requirement.operator}"):
        inject({"spec": {}}, requirement, mode=mode)
