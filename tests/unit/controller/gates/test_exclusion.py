"""The nodes that a pod must avoid when its gate is lifted without a pin."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.gates import exclusion
from controller.gates.exclusion import Excluded, Exclusion, KeepGate, KeepReason, names_nodes
from numalign.kube.decode.scheduling import REQUIRED, scheduling
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.demand import Demand
from numalign.model.intent import NODE_LABEL
from numalign.model.node import Node, node_label
from numalign.scheduling.node_fit import NodeFit
from tests.worlds.notation import node, table
from tests.worlds.scorer import FOUR, SINGLE, Raw, Scorer, on, raw

ASKS = "cpu=4 mem=1Gi"
HOSTNAME = "kubernetes.io/hostname"


def of_policy(made: Node, policy: str) -> Node:
    return replace(made, policy=node("cpu=1", policy=policy).policy)


FRAGMENTED = node(*["cpu=2 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=4 mem=8Gi")
"""Four CPUs, and not in a zone."""

FULL = node(*["cpu=2 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=3 mem=8Gi")
ROOMY = node(*["cpu=8 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=16 mem=8Gi")
TIGHT = replace(ROOMY, totals=FULL.totals)
CORDONED = Attributes(cordoned=True)
TAINTED = Attributes(taints=(Taint("gpu", "", "NoSchedule"),))


async def evaluate(scorer: Scorer, made: Raw, finder: Exclusion, *, terms: int = 1) -> Excluded | KeepGate:
    scorer.see(made)
    return await finder.of(scorer.state.pods[made["metadata"]["uid"]], scorer.subject(made), terms=terms)


async def decide(
    scorer: Scorer, made: Raw, *, refusing: Sequence[str] = (), terms: int = 1
) -> tuple[str, ...] | KeepReason:
    """The excluded nodes, or why the gate stays."""
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: refusing)
    result = await evaluate(scorer, made, finder, terms=terms)
    return result.nodes if isinstance(result, Excluded) else result.reason


async def know(scorer: Scorer, **members: Node) -> None:
    """Nodes that carry their names."""
    await scorer.know(members, labels={name: {NODE_LABEL: node_label(name)} for name in members})


CASES: list[tuple[str, Node, bool]] = [
    # the node                                           whether it is excluded
    ("has room in total and not in a zone",    FRAGMENTED,                                True),
    ("has too little in total",                FULL,                                      False),
    ("has room in a zone",                     ROOMY,                                     False),
    ("has a kubelet of best effort",           of_policy(FRAGMENTED, "best-effort"),      False),
    ("is cordoned for now",                    replace(FRAGMENTED, attributes=CORDONED),  True),
    ("has a taint that is not tolerated",      replace(FRAGMENTED, attributes=TAINTED),   False),
]  # fmt: skip


@pytest.mark.parametrize(("made", "excluded"), table(CASES))
async def test_node_is_excluded_if_it(scorer: Scorer, made: Node, *, excluded: bool) -> None:
    await know(scorer, one=made)

    assert await decide(scorer, raw(ASKS)) == (("one",) if excluded else ())


async def test_node_that_rejected_such_a_pod_is_excluded(scorer: Scorer) -> None:
    labels = {name: {NODE_LABEL: name} for name in ("roomy", "bare")}
    await scorer.know({"roomy": ROOMY}, unknown=["bare"], labels=labels)

    assert await decide(scorer, raw(ASKS), refusing=("roomy", "bare", "gone")) == ("roomy", "bare")
    elsewhere = raw(ASKS, name="elsewhere", spec={"nodeSelector": {"pool": "a"}})
    assert await decide(scorer, elsewhere, refusing=("roomy",)) == ()
    # An old rejection no longer excludes, although nothing has changed on any node.
    refusing = ["roomy"]
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: refusing)
    assert await evaluate(scorer, raw(ASKS), finder) == Excluded(("roomy",))
    refusing.clear()
    assert await evaluate(scorer, raw(ASKS), finder) == Excluded(())


async def test_reserved_zones_leave_room_in_total(scorer: Scorer) -> None:
    """A scheduler does not know of reservations."""
    await know(scorer, one=node(*["cpu=4 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=8 mem=8Gi"))
    for name in ("first", "second"):
        scorer.reserve(raw("cpu=3 mem=1Gi", name=name), "one")

    assert await decide(scorer, raw(ASKS)) == ("one",)


async def test_template_is_evaluated_once_until_a_node_changes(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated, fits = list[str](), NodeFit.fits

    def counted(self: NodeFit, name: str, demand: Demand) -> bool:
        evaluated.append(name)
        return fits(self, name, demand)

    monkeypatch.setattr(NodeFit, "fits", counted)
    await know(scorer, one=FRAGMENTED)
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: ())

    async def evaluations(name: str) -> int:
        await evaluate(scorer, raw(ASKS, name=name), finder)
        return len(evaluated)

    assert [await evaluations("first"), await evaluations("second")] == [1, 1]
    scorer.see(on("one", raw("cpu=1 mem=1Gi", name="taken")))
    assert await evaluations("third") == 2
    await know(scorer, one=FRAGMENTED)
    assert await evaluations("fourth") == 3


async def test_gate_stays_if_nodes_cannot_be_excluded(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusion, "MOST_EXCLUDED", 3)
    # A node with another label meets every `NotIn`, as one without it.
    await scorer.know({"one": FRAGMENTED, "roomy": ROOMY}, labels={"one": {NODE_LABEL: "of-another"}})
    assert await decide(scorer, raw(ASKS)) is KeepReason.UNLABELLED

    await know(scorer, **{f"n{number}": FRAGMENTED for number in range(3)})

    assert await decide(scorer, raw(ASKS), terms=1) == ("n0", "n1", "n2")
    why = "3 nodes have room for it in total but not in a NUMA zone, and a pod can be kept off at most 1"
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: ())
    assert await evaluate(scorer, raw(ASKS), finder, terms=2) == KeepGate(KeepReason.TOO_MANY, why)


def affine(*terms: Raw) -> Raw:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}}


def each(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": [*values]}


def by_name(name: str) -> Raw:
    return {"matchFields": [each("metadata.name", "In", name)]}


HOST, ZONE = each(HOSTNAME, "In", "one"), each("zone", "In", "a")
NAMING: list[tuple[str, Raw, bool]] = [
    ("a hostname in its selector",  {"nodeSelector": {HOSTNAME: "one"}},                             True),
    ("a pool in its selector",      {"nodeSelector": {"pool": "one"}},                               False),
    ("a hostname",                  affine({"matchExpressions": [ZONE, HOST]}),                      True),
    ("a field",                     affine(by_name("one")),                                          True),
    ("one in each of two terms",    affine(by_name("one"), {"matchExpressions": [HOST]}),            True),
    ("one in one of two terms",     affine(by_name("one"), {"matchExpressions": [ZONE]}),            False),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "named"), table(NAMING))
def test_pod_names_its_nodes_by(spec: dict[str, Any], *, named: bool) -> None:
    assert names_nodes(scheduling(raw(FOUR, spec=spec)).constraints) is named


NAMES = KeepReason.NAMES_NODES
NAMED: list[tuple[str, Node, tuple[str, ...], object]] = [
    ("would reject it", FRAGMENTED, (), NAMES),
    ("has room", ROOMY, (), ()),
    ("rejected such a pod", ROOMY, ("one",), NAMES),
]


@pytest.mark.parametrize(("made", "refusing", "result"), table(NAMED))
async def test_gate_of_a_pod_that_names_a_node_which(
    scorer: Scorer, made: Node, refusing: tuple[str, ...], result: object
) -> None:
    """No autoscaler creates that node."""
    await know(scorer, one=replace(made, attributes=Attributes(Labels({HOSTNAME: "one"}))))

    pod = raw(ASKS, spec={"nodeSelector": {HOSTNAME: "one"}})
    assert await decide(scorer, pod, refusing=refusing) == result


@pytest.mark.parametrize(
    ("other", "result"),
    [(TIGHT, NAMES), (replace(ROOMY, attributes=CORDONED), NAMES), (ROOMY, ("one",))],
    ids=["full", "cordoned", "roomy"],
)
async def test_gate_of_a_pod_that_names_another_node_too(scorer: Scorer, other: Node, result: object) -> None:
    await know(scorer, one=FRAGMENTED, other=other)

    assert await decide(scorer, raw(ASKS, spec=affine(by_name("one"), by_name("other"))), terms=2) == result
