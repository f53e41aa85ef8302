"""A shape: what it has of its nodes, and which pods may go to nodes of it."""

from dataclasses import replace
from functools import partial

import pytest

from numalign.model.attributes import OS_LABEL, Attributes, Labels, Taint
from numalign.model.constraints import (
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


def test_shape_has_no_name_pods_and_attributes() -> None:
    used = replace(PLAIN.zones[0], free=bag("cpu=1 mem=1Gi gpu=0"))
    made = standing(replace(PLAIN, zones=(used, PLAIN.zones[1]), label="blue"), pool="gpu")
    assert bare(made) == replace(PLAIN, name="")
    assert of(made).labels == {"pool": LabelValues(frozenset({"gpu"}))}


def test_class_label_counts_by_its_expected_value() -> None:
    random = frozenset({"3402240076448895094"})
    [value] = random
    made = replace(standing(), attributes=Attributes(Labels({CLASS_LABEL: value})))
    joined_shape, selecting = of(made), partial(Requirement, CLASS_LABEL)

    assert joined_shape == of(standing())
    assert joined_shape.covers(made)
    assert (
        joined_shape.unmet(Constraints((selecting(Operator.IN, frozenset({joined_shape.node_class})),)))
        is None
    )
    assert joined_shape.unmet(Constraints((selecting(Operator.DOES_NOT_EXIST),))) is None
    for unmet in (joined_shape.unmet, joined_shape.unmet_by_new):
        assert unmet(Constraints((selecting(Operator.IN, random),))) is Unmet.AFFINITY


def option(*, strategy: str = "none", weights: str = "", unknown: str = "") -> Node:
    chosen = options(strategy=strategy, weights=weights, unknown=unknown)
    return standing(replace(PLAIN, options=chosen))


SAME = [
    # what it shows one node another one shape
    ("two alike", standing(), replace(standing(), name="m", label="x"), True),
    ("other labels", standing(pool="a"), standing(pool="b"), True),
    ("a passing taint", standing(), standing(taints=(Taint("karpenter.sh/x"),)), True),
    ("a lasting taint", standing(), standing(taints=(Taint("x"),)), False),
    ("zones of the kubelet", standing(), standing(replace(PLAIN, max_zones=9)), False),
    ("another strategy", option(strategy="least-allocated"), option(strategy="most-allocated"), False),
    ("another weight", option(weights="cpu=2"), option(weights="cpu=3"), False),
    ("another unknown option", option(unknown="x"), option(unknown="y"), False),
    ("other totals", standing(), standing(replace(PLAIN, totals=bag("cpu=1"))), True),
    ("other devices", standing(), standing(node("cpu=4 mem=8Gi gpu=1", "cpu=4 mem=8Gi")), False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), table(SAME))
def test_equal_shapes_have_equal_names(one: Node, other: Node, *, same: bool) -> None:
    assert (of(one).name == of(other).name) is same
    assert of(one).name.startswith(f"{of(one).node_class}.")


def test_joined_shape_has_the_largest_amounts() -> None:
    small = replace(PLAIN, totals=bag("cpu=6 gpu=2 pods=10"))
    joined_shape = joined(standing(), standing(small))
    assert joined_shape.node.totals == bag("cpu=8 gpu=2 pods=10")
    assert joined_shape is not joined_shape.joined(of(standing(replace(PLAIN, totals=bag("cpu=9")))))
    assert joined_shape.joined(of(standing())) is joined_shape
    with pytest.raises(ValueError, match="is not"):
        joined(standing(), standing(taints=(Taint("x"),)))


def test_labels_and_values_are_kept_up_to_a_limit() -> None:
    few, many = (
        joined(*(standing(host=f"h{at}") for at in range(count))) for count in (MOST_VALUES, MOST_VALUES + 1)
    )
    assert few.labels["host"] == LabelValues(frozenset(f"h{at}" for at in range(MOST_VALUES)))
    assert many.labels["host"] == LabelValues(None)
    labels = {f"k{at:03}": LabelValues(frozenset("a")) for at in range(MOST_LABELS + 1)}
    limited = shape(bare(PLAIN), (), labels)
    assert (len(limited.labels), limited.other_labels) == (MOST_LABELS, True)


def test_label_of_some_nodes_is_optional() -> None:
    joined_shape = joined(standing(pool="a"), standing(), standing(rack="r"))
    assert joined_shape.labels == {
        "pool": LabelValues(frozenset("a"), always=False),
        "rack": LabelValues(frozenset("r"), always=False),
    }


def selecting(operator: str, *values: str, key: str = "pool") -> Constraints:
    return Constraints((Requirement(key, Operator(operator), frozenset(values)),))


def terms(*listed: Term) -> Constraints:
    return Constraints(terms=listed)


POOLS = joined(standing(pool="a"), standing(pool="b"))
SOME = joined(standing(pool="a"), standing())
OPEN = Shape(POOLS.node, other_labels=True)
TAINTED = of(standing(taints=(Taint("dedicated", "gpu"),)))
LINUX = of(replace(standing(), attributes=Attributes(Labels({OS_LABEL: "linux"}))))
SOME_LINUX = LINUX.joined(of(standing()))
WINDOWS = Constraints(os="windows")
FIRST = Requirement("pool", Operator.IN, frozenset("a"))
OTHER = Requirement("pool", Operator.IN, frozenset("c"))
NAME = Requirement(NAME_FIELD, Operator.IN, frozenset({"n"}))
TOLERANT = Constraints(tolerations=(Toleration("dedicated", Tolerating.EXISTS),))

HOPES = [
    # what it shows the shape the pod why not
    ("a value that some node has",   POOLS,      selecting("In", "b", "c"),             None),
    ("one that none has",            POOLS,      selecting("In", "c"),                  Unmet.AFFINITY),
    ("no label, where all have it",  POOLS,      selecting("DoesNotExist"),             Unmet.AFFINITY),
    ("no label, where one lacks it", SOME,       selecting("DoesNotExist"),             None),
    ("a label of no node",           POOLS,      selecting("Exists", key="x"),          Unmet.AFFINITY),
    ("an unknown label",             OPEN,       selecting("In", "a", key="x"),         None),
    ("one of two terms",             POOLS,      terms(Term((OTHER,)), Term((FIRST,))), None),
    ("a term without anything",      POOLS,      terms(Term()),                         Unmet.AFFINITY),
    ("a name is of one node",        POOLS,      terms(Term(fields=(NAME,))),           None),
    ("another one",                  LINUX,      WINDOWS,                               Unmet.OS),
    ("one that not all nodes have",  SOME_LINUX, WINDOWS,                               None),
    ("a taint",                      TAINTED,    Constraints(),                         Unmet.TAINT),
    ("one that is tolerated",        TAINTED,    TOLERANT,                              None),
]  # fmt: skip


@pytest.mark.parametrize(("known", "constraints", "unmet"), table(HOPES))
def test_pod_may_go_to_a_shape(known: Shape, constraints: Constraints, unmet: Unmet | None) -> None:
    assert known.unmet(constraints) is unmet


LABELLED = of(
    replace(standing(), attributes=Attributes(Labels({"zone": "a", "nvidia.com/gpu.product": "x"})))
)
T4, ZONE_B = selecting("In", "y", key="nvidia.com/gpu.product"), selecting("In", "b", key="zone")
PLACE = ZONE_B.selector

COMING = [
    # what it shows                            the shape the pod                             why not
    ("another place",                          LABELLED, ZONE_B,                             None),
    ("a label of no node",                     POOLS,    selecting("Exists", key="x"),       Unmet.AFFINITY),
    ("a label that an agent will set",         POOLS,    T4,                                 None),
    ("another value of what an agent has set", LABELLED, T4,                                 Unmet.AFFINITY),
    ("a term about a place",                   POOLS,    terms(Term((OTHER,)), Term(PLACE)), None),
    ("a term about a place of another pool",   POOLS,    terms(Term((OTHER, *PLACE))),       Unmet.AFFINITY),
    ("a taint",                                TAINTED,  ZONE_B,                             Unmet.TAINT),
]  # fmt: skip


@pytest.mark.parametrize(("known", "constraints", "unmet"), table(COMING))
def test_pod_may_go_to_a_new_node_of_a_shape(
    known: Shape, constraints: Constraints, unmet: Unmet | None
) -> None:
    assert known.unmet_by_new(constraints) is unmet


COVERED = [
    # what it shows       a node                                                   covered
    ("another value",     standing(pool="c"),                                      False),
    ("another label",     standing(pool="a", x="y"),                               False),
    ("without the label", standing(),                                              False),
    ("less as a whole",   standing(replace(PLAIN, totals=bag("cpu=7")), pool="a"), True),
]  # fmt: skip


@pytest.mark.parametrize(("made", "covered"), table(COVERED))
def test_covered_node_adds_nothing_to_a_shape(made: Node, *, covered: bool) -> None:
    assert POOLS.covers(made) is covered
    assert (POOLS.joined(of(made)) is POOLS) is covered
