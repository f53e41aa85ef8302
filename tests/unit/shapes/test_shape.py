"""A shape: what it keeps of its nodes, and which pods may hope for it."""

from dataclasses import replace
from functools import partial

import pytest

from numalign.model.attributes import OS_LABEL, Attributes, Labels, Taint
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
)
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import Node
from numalign.shapes.shape import MOST_LABELS, MOST_VALUES, LabelValues, Shape, bare, of, shape
from tests.worlds.notation import bag, node, options, table

PLAIN = node("cpu=4 mem=8Gi gpu=2", "cpu=4 mem=8Gi", policy="restricted", totals="cpu=8 gpu=2")


def standing(made: Node = PLAIN, *, taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    return replace(made, name="n", attributes=Attributes(Labels(labels), taints))


def joined(*nodes: Node) -> Shape:
    first, *others = map(of, nodes)
    for other in others:
        first = first.joined(other)
    return first


def test_a_shape_is_a_node_without_name_pods_and_attributes() -> None:
    used = replace(PLAIN.zones[0], free=bag("cpu=1 mem=1Gi gpu=0"))
    made = standing(replace(PLAIN, zones=(used, PLAIN.zones[1]), label="blue"), pool="gpu")

    assert bare(made) == replace(PLAIN, name="")
    assert of(made).labels == {"pool": LabelValues(frozenset({"gpu"}))}


def test_class_label_counts_by_its_expected_value() -> None:
    random = frozenset({"3402240076448895094"})
    [value] = random
    made = replace(standing(), attributes=Attributes(Labels({CLASS_LABEL: value})))
    found, asks = of(made), partial(Requirement, CLASS_LABEL)

    assert found == of(standing())
    assert found.covers(made)
    assert found.unmet(Constraints((asks(Operator.IN, frozenset({found.node_class})),))) is None
    assert found.unmet(Constraints((asks(Operator.DOES_NOT_EXIST),))) is None
    for unmet in (found.unmet, found.unmet_by_new):
        assert unmet(Constraints((asks(Operator.IN, random),))) is Unmet.AFFINITY


def told(*, strategy: str = "none", weights: str = "", unknown: str = "") -> Node:
    chosen = options(strategy=strategy, weights=weights, unknown=unknown)
    return standing(replace(PLAIN, options=chosen))


SAME = [
    # what it shows one node another one shape
    ("two alike", standing(), replace(standing(), name="m", label="x"), True),
    ("other labels", standing(pool="a"), standing(pool="b"), True),
    ("a passing taint", standing(), standing(taints=(Taint("karpenter.sh/x"),)), True),
    ("a lasting taint", standing(), standing(taints=(Taint("x"),)), False),
    ("threads", standing(), standing(replace(PLAIN, threads=2)), False),
    ("zones of the kubelet", standing(), standing(replace(PLAIN, max_zones=9)), False),
    ("a strategy", standing(), told(strategy="most-allocated"), False),
    ("another strategy", told(strategy="least-allocated"), told(strategy="most-allocated"), False),
    ("another weight", told(weights="cpu=2"), told(weights="cpu=3"), False),
    ("an unknown option", standing(), told(unknown="x"), False),
    ("another unknown option", told(unknown="x"), told(unknown="y"), False),
    ("no totals", standing(), standing(replace(PLAIN, totals=None)), False),
    ("other totals", standing(), standing(replace(PLAIN, totals=bag("cpu=1"))), True),
    ("other devices", standing(), standing(node("cpu=4 mem=8Gi gpu=1", "cpu=4 mem=8Gi")), False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), table(SAME))
def test_a_name_tells_shapes_apart(one: Node, other: Node, *, same: bool) -> None:
    assert (of(one).name == of(other).name) is same
    assert of(one).name.startswith(f"{of(one).node_class}.")


def test_shapes_of_other_kinds_are_not_joined() -> None:
    with pytest.raises(ValueError, match="is not"):
        joined(standing(), standing(taints=(Taint("x"),)))


def test_of_amounts_the_largest_are_kept() -> None:
    small = replace(PLAIN, totals=bag("cpu=6 gpu=2 pods=10"))
    found = joined(standing(), standing(small))

    assert found.node.totals == bag("cpu=8 gpu=2 pods=10")
    assert found is not found.joined(of(standing(replace(PLAIN, totals=bag("cpu=9")))))
    assert found.joined(of(standing())) is found


def test_label_values_are_kept_up_to_a_limit() -> None:
    few, many = (
        joined(*(standing(host=f"h{at}") for at in range(count))) for count in (MOST_VALUES, MOST_VALUES + 1)
    )

    assert few.labels["host"] == LabelValues(frozenset(f"h{at}" for at in range(MOST_VALUES)))
    assert many.labels["host"] == LabelValues(None)


def test_a_label_that_some_nodes_lack_is_not_always_there() -> None:
    found = joined(standing(pool="a"), standing(), standing(rack="r"))

    assert found.labels == {
        "pool": LabelValues(frozenset("a"), always=False),
        "rack": LabelValues(frozenset("r"), always=False),
    }


def test_too_many_labels_are_kept_in_part() -> None:
    labels = {f"k{at:03}": LabelValues(frozenset("a")) for at in range(MOST_LABELS + 1)}
    found = shape(bare(PLAIN), (), labels)

    assert (len(found.labels), found.other_labels) == (MOST_LABELS, True)


def asks(operator: str, *values: str, key: str = "pool") -> Constraints:
    return Constraints((Requirement(key, Operator(operator), frozenset(values)),))


def terms(*found: Term) -> Constraints:
    return Constraints(terms=found)


POOLS = joined(standing(pool="a"), standing(pool="b"))
SOME = joined(standing(pool="a"), standing())
ANY = Shape(POOLS.node, labels={"pool": LabelValues(None)})
OPEN = Shape(POOLS.node, other_labels=True)
TAINTED = of(standing(taints=(Taint("dedicated", "gpu"),)))
LINUX = of(replace(standing(), attributes=Attributes(Labels({OS_LABEL: "linux"}))))
SOME_LINUX = LINUX.joined(of(standing()))
WINDOWS = Constraints(os="windows")
HERE = Requirement("pool", Operator.IN, frozenset("a"))
THERE = Requirement("pool", Operator.IN, frozenset("c"))
NAME = Requirement(NAME_FIELD, Operator.IN, frozenset({"n"}))
TOLERANT = Constraints(tolerations=(Toleration("dedicated", Tolerating.EXISTS),))

HOPES = [
    # what it shows the shape the pod why not
    ("a value that some node has", POOLS, asks("In", "b", "c"), None),
    ("one that none has", POOLS, asks("In", "c"), Unmet.AFFINITY),
    ("not a value that all but one have", POOLS, asks("NotIn", "a"), None),
    ("none of the values", POOLS, asks("NotIn", "a", "b"), Unmet.AFFINITY),
    ("no label, where all have it", POOLS, asks("DoesNotExist"), Unmet.AFFINITY),
    ("no label, where one lacks it", SOME, asks("DoesNotExist"), None),
    ("a label that nobody has", POOLS, asks("Exists", key="x"), Unmet.AFFINITY),
    ("no label that nobody has", POOLS, asks("NotIn", "a", key="x"), None),
    ("any value", ANY, asks("In", "whatever"), None),
    ("a label that nobody told of", OPEN, asks("In", "a", key="x"), None),
    ("and none", OPEN, asks("DoesNotExist", key="x"), None),
    ("one of two terms", POOLS, terms(Term((THERE,)), Term((HERE,))), None),
    ("neither", POOLS, terms(Term((THERE,))), Unmet.AFFINITY),
    ("no terms", POOLS, terms(), Unmet.AFFINITY),
    ("a term without anything", POOLS, terms(Term()), Unmet.AFFINITY),
    ("a name says nothing of others", POOLS, terms(Term(fields=(NAME,))), None),
    ("the operating system of the pod", LINUX, Constraints(os="linux"), None),
    ("another one", LINUX, WINDOWS, Unmet.OS),
    ("one that not all nodes tell", SOME_LINUX, WINDOWS, None),
    ("one that none tells", POOLS, WINDOWS, None),
    ("a taint", TAINTED, Constraints(), Unmet.TAINT),
    ("one that is tolerated", TAINTED, TOLERANT, None),
    ("a pod that may go everywhere", TAINTED, ANYWHERE, None),
]  # fmt: skip


@pytest.mark.parametrize(("known", "constraints", "unmet"), table(HOPES))
def test_a_pod_may_hope_for_a_shape(known: Shape, constraints: Constraints, unmet: Unmet | None) -> None:
    assert known.unmet(constraints) is unmet


LABELLED = of(
    replace(standing(), attributes=Attributes(Labels({"zone": "a", "nvidia.com/gpu.product": "x"})))
)
T4, ZONE_B = asks("In", "y", key="nvidia.com/gpu.product"), asks("In", "b", key="zone")
PLACE = ZONE_B.selector

COMING = [
    # what it shows                             the shape   the pod                         why not
    ("another place",                           LABELLED,   ZONE_B,                         None),
    ("no place",                                LABELLED,   asks("DoesNotExist", key="zone"), None),
    ("another pool",                            POOLS,      asks("In", "c"),                Unmet.AFFINITY),
    ("a label that nobody has",                 POOLS,      asks("Exists", key="x"),        Unmet.AFFINITY),
    ("a label that an agent will set",          POOLS,      T4,                             None),
    ("another value of what an agent has set",  LABELLED,   T4,                             Unmet.AFFINITY),
    ("a term about a place",                    POOLS,      terms(Term((THERE,)), Term(PLACE)), None),
    ("a term about a place of another pool",    POOLS,      terms(Term((THERE, *PLACE))),   Unmet.AFFINITY),
    ("a taint",                                 TAINTED,    ZONE_B,                         Unmet.TAINT),
]  # fmt: skip


@pytest.mark.parametrize(("known", "constraints", "unmet"), table(COMING))
def test_a_pod_may_hope_for_a_node_that_is_still_to_come(
    known: Shape, constraints: Constraints, unmet: Unmet | None
) -> None:
    assert known.unmet_by_new(constraints) is unmet


COVERED = [
    # what it shows                       a node                                            covered
    ("one of those that were seen",       standing(pool="a"),                               True),
    ("another value",                     standing(pool="c"),                               False),
    ("another label",                     standing(pool="a", x="y"),                        False),
    ("without the label",                 standing(),                                       False),
    ("more as a whole",                   standing(replace(PLAIN, totals=bag("cpu=9")), pool="a"), False),
    ("less as a whole",                   standing(replace(PLAIN, totals=bag("cpu=7")), pool="a"), True),
]  # fmt: skip


@pytest.mark.parametrize(("made", "covered"), table(COVERED))
def test_what_a_shape_covers_adds_nothing_to_it(made: Node, *, covered: bool) -> None:
    assert POOLS.covers(made) is covered
    assert (POOLS.joined(of(made)) is POOLS) is covered
