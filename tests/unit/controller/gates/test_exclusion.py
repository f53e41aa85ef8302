"""A pod is kept off the nodes that its scheduler would choose and their kubelets reject, and no others."""

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

FRAGMENTED = node(*["cpu=2 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=4 mem=8Gi")
"""Four CPUs, and not in a zone."""

FULL = node(*["cpu=2 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=3 mem=8Gi")
ROOMY = node(*["cpu=8 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=16 mem=8Gi")
TIGHT = replace(ROOMY, totals=FULL.totals)
AWAY = replace(ROOMY, attributes=Attributes(cordoned=True))
LOOSE = replace(FRAGMENTED, policy=node("cpu=1", policy="best-effort").policy)
RESTRICTED = replace(ROOMY, policy=node("cpu=1", policy="restricted").policy)
CORDONED = replace(FRAGMENTED, attributes=Attributes(cordoned=True))
TAINTED = replace(FRAGMENTED, attributes=Attributes(taints=(Taint("gpu", "", "NoSchedule"),)))
HALF = (
    on("restricted", raw("cpu=6 mem=1Gi", name="first")),
    on("restricted", raw("cpu=6 mem=1Gi", name="second")),
)


async def found(
    scorer: Scorer, made: Raw, *, refusing: tuple[str, ...] = (), terms: int = 1
) -> Excluded | KeepGate:
    """What becomes of the gate of a pod."""
    scorer.see(made)
    pod = scorer.state.pods[made["metadata"]["uid"]]
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: refusing)
    return await finder.of(pod, scorer.subject(made), terms=terms)


async def know(scorer: Scorer, **members: Node) -> None:
    """Nodes that carry their names."""
    await scorer.know(members, labels={name: {NODE_LABEL: node_label(name)} for name in members})


CASES: list[tuple[str, Node, bool]] = [
    # the node                                           whether it is excluded
    ("has room in total and not in a zone",    FRAGMENTED, True),
    ("has too little in total",                FULL,       False),
    ("has room in a zone",                     ROOMY,      False),
    ("has a kubelet that takes what it gets",  LOOSE,      False),
    ("is cordoned for now",                    CORDONED,   True),
    ("has a taint that the pod does not tolerate", TAINTED, False),
]  # fmt: skip


@pytest.mark.parametrize(("made", "excluded"), table(CASES))
async def test_a_node_is_excluded_if_it(scorer: Scorer, made: Node, *, excluded: bool) -> None:
    await know(scorer, one=made)

    assert await found(scorer, raw(ASKS)) == Excluded(("one",) if excluded else ())


async def test_a_node_of_another_policy_is_excluded_if_its_kubelet_would_reject_the_pod(
    scorer: Scorer,
) -> None:
    """However little its policy would do for the pod."""
    await know(scorer, restricted=RESTRICTED)
    before = await found(scorer, raw(ASKS))
    for pod in HALF:
        scorer.see(pod)

    assert (before, await found(scorer, raw(ASKS))) == (Excluded(()), Excluded(("restricted",)))


async def test_a_node_that_rejected_such_a_pod_is_excluded_whatever_is_known_of_it(scorer: Scorer) -> None:
    labels = {name: {NODE_LABEL: name} for name in ("roomy", "bare")}
    await scorer.know({"roomy": ROOMY}, unknown=["bare"], labels=labels)

    assert await found(scorer, raw(ASKS), refusing=("roomy", "bare", "gone")) == Excluded(("roomy", "bare"))


async def test_zones_that_are_only_reserved_leave_room_in_total(scorer: Scorer) -> None:
    """A scheduler does not know of them."""
    await know(scorer, one=node(*["cpu=4 mem=4Gi"] * 2, policy=SINGLE, totals="cpu=8 mem=8Gi"))
    first, second = raw("cpu=3 mem=1Gi", name="first"), raw("cpu=3 mem=1Gi", name="second")
    for pod in (first, second):
        scorer.see(pod)
        pending = scorer.subject(pod)
        prediction = scorer.state.predict("one", pending, without=())
        scorer.reservations.reserve("one", pending.assigned_pod(now=scorer.time()), prediction)

    assert await found(scorer, raw(ASKS)) == Excluded(("one",))


async def test_pods_of_a_template_get_one_answer_until_a_node_changes(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    fits = NodeFit.fits

    def counted(self: NodeFit, name: str, demand: Demand) -> bool:
        looked.append(name)
        return fits(self, name, demand)

    monkeypatch.setattr(NodeFit, "fits", counted)
    await know(scorer, one=FRAGMENTED)
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: ())

    async def asked(name: str) -> int:
        made = raw(ASKS, name=name)
        scorer.see(made)
        await finder.of(scorer.state.pods[made["metadata"]["uid"]], scorer.subject(made), terms=1)
        return len(looked)

    first, second = await asked("first"), await asked("second")
    scorer.see(on("one", raw("cpu=1 mem=1Gi", name="taken")))
    changed = await asked("third")
    await know(scorer, one=FRAGMENTED)
    known_anew = await asked("fourth")

    assert (first, second, changed, known_anew) == (1, 1, 2, 3)


LONG = "ip-10-0-0-1." + "very-long-" * 6 + "domain"


async def test_a_long_name_is_excluded_by_its_shortened_label(scorer: Scorer) -> None:
    await scorer.know({LONG: FRAGMENTED}, labels={LONG: {NODE_LABEL: node_label(LONG)}})
    excluded = await found(scorer, raw(ASKS))

    assert isinstance(excluded, Excluded)
    assert excluded.labels == (node_label(LONG),)


@pytest.mark.parametrize("label", [None, "of-another"])
async def test_the_gate_stays_until_a_node_that_must_be_excluded_carries_its_name(
    scorer: Scorer, label: str | None
) -> None:
    """A node that lacks a label meets every `NotIn`."""
    labels = {"one": {NODE_LABEL: label} if label else {}}
    await scorer.know({"one": FRAGMENTED, "roomy": ROOMY}, labels=labels)
    kept = await found(scorer, raw(ASKS))

    assert isinstance(kept, KeepGate)
    assert (kept.reason, "node one" in kept.why) == (KeepReason.UNLABELLED, True)


@pytest.mark.parametrize(("terms", "kept"), [(1, False), (2, True)])
async def test_the_gate_stays_if_too_many_nodes_must_be_excluded(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch, terms: int, *, kept: bool
) -> None:
    monkeypatch.setattr(exclusion, "MOST_EXCLUDED", 3)
    await know(scorer, **{f"n{number}": FRAGMENTED for number in range(3)})
    what = await found(scorer, raw(ASKS), terms=terms)

    if kept:
        assert isinstance(what, KeepGate)
        assert (what.reason, "3 nodes" in what.why, "at most 1" in what.why) == (
            KeepReason.TOO_MANY,
            True,
            True,
        )
    else:
        assert isinstance(what, Excluded)


def affine(*terms: Raw) -> Raw:
    """The spec of a pod with these terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}}


def each(key: str, operator: str, *values: str) -> Raw:
    """A requirement."""
    return {"key": key, "operator": operator, "values": [*values]}


HOST, ZONE = each("kubernetes.io/hostname", "In", "one"), each("zone", "In", "a")
BY_FIELD = {"matchFields": [each("metadata.name", "In", "one")]}
NAMING: list[tuple[str, Raw, bool]] = [
    ("a hostname in its selector",  {"nodeSelector": {"kubernetes.io/hostname": "one"}},             True),
    ("our label in its selector",   {"nodeSelector": {NODE_LABEL: "one"}},                           True),
    ("a pool in its selector",      {"nodeSelector": {"pool": "one"}},                               False),
    ("a hostname",                  affine({"matchExpressions": [ZONE, HOST]}),                      True),
    ("a field",                     affine(BY_FIELD),                                                True),
    ("our label",                   affine({"matchExpressions": [each(NODE_LABEL, "In", "one")]}),   True),
    ("one in each of two terms",    affine(BY_FIELD, {"matchExpressions": [HOST]}),                  True),
    ("one beside an empty term",    affine(BY_FIELD, {}),                                            True),
    ("one in one of two terms",     affine(BY_FIELD, {"matchExpressions": [ZONE]}),                  False),
    ("nodes that it does not want", affine({"matchExpressions": [each(NODE_LABEL, "NotIn", "a")]}),  False),
    ("nothing",                     {},                                                              False),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "named"), table(NAMING))
def test_a_pod_goes_only_to_nodes_that_it_names_if_it_asks_for(spec: dict[str, Any], *, named: bool) -> None:
    assert names_nodes(scheduling(raw(FOUR, spec=spec)).constraints) is named


@pytest.mark.parametrize(("made", "kept"), [(FRAGMENTED, True), (FULL, True), (ROOMY, False)])
async def test_the_gate_of_a_pod_that_names_a_node_stays_as_long_as_its_kubelet_would_reject_it(
    scorer: Scorer, made: Node, *, kept: bool
) -> None:
    """No autoscaler makes that node."""
    named = replace(made, attributes=Attributes(Labels({"kubernetes.io/hostname": "one"})))
    await know(scorer, one=named)
    what = await found(scorer, raw(ASKS, spec={"nodeSelector": {"kubernetes.io/hostname": "one"}}))

    assert isinstance(what, KeepGate) is kept
    assert not kept or (isinstance(what, KeepGate) and what.reason is KeepReason.NAMES_NODES)


async def test_a_pod_that_names_a_node_without_a_topology_is_let_go(scorer: Scorer) -> None:
    await scorer.know({}, unknown=["bare"])

    assert await found(scorer, raw(ASKS, spec=affine(BY_FIELD))) == Excluded(())


def hosted(made: Node, name: str, **labels: str) -> Node:
    """A node with a hostname and other labels."""
    return replace(made, attributes=Attributes(Labels({"kubernetes.io/hostname": name, **labels})))


async def test_the_gate_of_a_pod_that_names_a_node_stays_after_the_node_rejected_such_a_pod(
    scorer: Scorer,
) -> None:
    """It would require and exclude the same node for ever."""
    await know(scorer, one=hosted(ROOMY, "one"))
    spec = {"nodeSelector": {"kubernetes.io/hostname": "one"}}
    kept = await found(scorer, raw(ASKS, spec=spec), refusing=("one",))

    assert isinstance(kept, KeepGate)
    assert kept.reason is KeepReason.NAMES_NODES


@pytest.mark.parametrize(("other", "excluded"), [(ROOMY, True), (TIGHT, False), (AWAY, False)])
async def test_a_pod_is_let_go_to_another_node_that_it_names_if_a_scheduler_finds_room_there(
    scorer: Scorer, other: Node, *, excluded: bool
) -> None:
    await know(scorer, one=FRAGMENTED, other=other)
    named = [{"matchFields": [each("metadata.name", "In", name)]} for name in ("one", "other")]

    what = await found(scorer, raw(ASKS, spec=affine(*named)), terms=2)

    assert (what == Excluded(("one",))) is excluded


async def test_a_node_that_rejected_such_a_pod_does_not_matter_where_the_pod_may_not_go(
    scorer: Scorer,
) -> None:
    await scorer.know({"one": hosted(ROOMY, "one")}, labels={})

    assert await found(
        scorer, raw(ASKS, spec={"nodeSelector": {"pool": "a"}}), refusing=("one",)
    ) == Excluded(())


async def test_a_node_is_no_longer_excluded_when_its_rejection_is_long_ago(scorer: Scorer) -> None:
    """Although nothing has changed on any node."""
    await know(scorer, one=ROOMY)
    refusing, made = ["one"], raw(ASKS)
    scorer.see(made)
    finder = Exclusion(scorer.state, scorer.nodes, lambda *_pod: refusing)
    pod, pending = scorer.state.pods[made["metadata"]["uid"]], scorer.subject(made)
    before = await finder.of(pod, pending, terms=1)
    refusing.clear()

    assert (before, await finder.of(pod, pending, terms=1)) == (Excluded(("one",)), Excluded(()))
