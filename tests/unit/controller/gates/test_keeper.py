"""Pods behind the gate are pinned in their order where they have zones, and let go where they have none."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gates import keeper
from controller.gates.choosing import Chooser
from controller.gates.exclusion import Exclusion
from controller.gates.keeper import OVERDUE_AT_ONCE, SETTLE_SECONDS
from controller.gates.pin import HOSTNAME_LABEL
from controller.gates.queue import LONGEST_LOOK
from numalign.cache.pod_question import MOST_TERMS
from numalign.kube.client import Patch
from numalign.kube.decode.scheduling import REQUIRED, scheduling
from numalign.model.attributes import Attributes, Labels
from numalign.model.constraints import Operator, Requirement, Term
from numalign.model.intent import NODE_LABEL, PINNED_AT, PLACEMENT, PLACEMENT_GATE
from numalign.model.node import Node
from tests.unit.controller.gates.conftest import GATED, GatedCluster, gated
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, FOUR, LARGE, SINGLE, SMALL, TEAM, Raw, on, raw, uid

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""One zone, for one pod of all of it."""

FULL = replace(SMALL, totals=node("", totals="cpu=3 mem=64Gi").totals)
"""Too small in total, as a scheduler sees it, too."""

NOT_SMALL = (Term((Requirement(NODE_LABEL, Operator.NOT_IN, frozenset({"small"})),)),)

SOON, LATER = "2027-01-15T08:00:00Z", "2027-01-15T08:00:01Z"
"""When the tests begin, and a second later; other pods are older."""

TERMS = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}] * (MOST_TERMS + 1)}
TOO_MANY = {"affinity": {"nodeAffinity": {REQUIRED: TERMS}}}
Nodes = dict[str, Node]
Rules = Mapping[str, str]
OPEN: Rules = {}

PINNED, LIFTED, NO_EVENT = ["NUMAPinned"], ["NUMAGateLifted"], list[str]()
DECISIONS: list[tuple[str, Raw, Nodes, Rules, float, str | None, list[str], str]] = [
    # the pod, the nodes and labels of its namespace, seconds, the pin, events, and words of the last one
    ("node has room", gated(FOUR), {"a": EMPTY, "small": SMALL}, GATED, 1, "a", PINNED, "pinned to node a"),
    ("pod is too large to remember", gated(*LARGE), {"a": EMPTY}, GATED, 2, "a", PINNED, ""),
    ("no node has room in time", gated(FOUR), {"full": FULL}, GATED, 32, None, LIFTED,
     "for 30 s no node had room: 0/1 nodes are available: 1 node(s) have less than 4 cpu"),
    ("there is no node", gated(FOUR), {}, GATED, 32, None, LIFTED, "there is no node"),
    ("pod has no policy", gated(FOUR, policy=None), {"a": EMPTY}, GATED, 2, None, LIFTED, "no longer req"),
    ("policy is nonsense", gated(FOUR, policy="x"), {"a": EMPTY}, GATED, 2, None, LIFTED, "are invalid"),
    ("pod has too many terms", gated(FOUR, spec=TOO_MANY), {"a": EMPTY}, GATED, 2, None, LIFTED,
     "more than 512 terms"),
    ("namespace has no gates yet", gated(FOUR), {"a": EMPTY}, OPEN, SETTLE_SECONDS - 2, None, NO_EVENT, ""),
    ("namespace has no gates", gated(FOUR), {"a": EMPTY}, OPEN, SETTLE_SECONDS + 2, None, LIFTED,
     "namespace team does not use gates (label numalign.io/gate)"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "nodes", "labels", "seconds", "pin", "reasons", "words"), table(DECISIONS))
async def test_decision_if(  # noqa: PLR0913, PLR0917  columns of the table
    pod: Raw, nodes: Nodes, labels: Rules, seconds: float, pin: str | None, reasons: list[str], words: str
) -> None:
    cluster = GatedCluster()
    await cluster.know(nodes, team=labels)
    await cluster.run(seconds, pod)

    assert cluster.gates() == ([] if reasons else [PLACEMENT_GATE])
    assert (cluster.pin(), cluster.reserved()) == (pin, {"web": pin} if pin else {})
    assert [event.reason for event in cluster.events] == reasons
    assert all(words in event.message for event in cluster.events)
    assert ("affinity" in cluster.pods["web"]["spec"]) is bool(pin or "affinity" in pod["spec"])


async def test_pin_is_one_write_and_reserves_until_bound(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(1)
        annotations = cluster.pods["web"]["metadata"]["annotations"]
        assert annotations[PLACEMENT].startswith('[{"zones":["node-0"]')
        assert annotations[PINNED_AT].startswith("2027-01-15T08:00:0")
        assert (len(cluster.patches), cluster.count("gates_lifted_total", how="pinned")) == (1, 1)
        cluster.bind("web")
        assert cluster.reserved() == {}
        await cluster.pass_by(90)

    assigned = cluster.reservations.assigned_pod(uid("web"))
    assert assigned
    assert assigned.record
    assert "NUMAPinnedNotPlaced" not in dict(cluster.reasons()).values()


@pytest.mark.parametrize(
    ("made", "refusing"), table([("would reject it", SMALL, ()), ("rejected one before", FULL, ("small",))])
)
async def test_lifted_pod_avoids_a_node_whose_kubelet(made: Node, refusing: tuple[str, ...]) -> None:
    cluster = GatedCluster(refusing=refusing)
    await cluster.know({"small": made})
    await cluster.run(32, gated(FOUR))

    [(_, patch, how)] = cluster.patches
    assert (cluster.gates(), how, patch["metadata"]["resourceVersion"]) == ([], Patch.MERGE, "1")
    assert scheduling(cluster.pods["web"]).constraints.terms == NOT_SMALL
    assert "kept off node small" in cluster.events[0].message


async def test_gate_stays_until_nodes_can_be_excluded(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL}, labels={})

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(120)
        reads = cluster.reads
        assert cluster.gates() == [PLACEMENT_GATE]
        await cluster.pass_by(600)
        more = cluster.reads - reads
        await cluster.know({"small": SMALL})
        await cluster.pass_by(LONGEST_LOOK)

    assert cluster.gates() == []
    assert cluster.reasons() == [("web", "NUMAGateKept"), ("web", "NUMAGateLifted")]
    assert "node small, without the label numalign.io/node" in cluster.events[0].message
    assert [line["why"] for line in cluster.log.of("gate.kept")] == ["unlabelled"]
    assert cluster.count("gates_kept_total", reason="unlabelled") == 1
    # Each look reads the pod, as each evaluation after a while does.
    assert more <= 600 / LONGEST_LOOK + 600 / keeper.REREAD_SECONDS + 2


async def test_pod_whose_gate_stays_is_pinned_when_there_is_room(cluster: GatedCluster) -> None:
    named = {"nodeSelector": {HOSTNAME_LABEL: "host"}}
    labels = {HOSTNAME_LABEL: "host", NODE_LABEL: "one"}
    await cluster.know({"one": replace(ONE, attributes=Attributes(Labels(labels)))}, labels={"one": labels})

    async with cluster.running(gated(ALL, name="first")):
        await cluster.pass_by(1)
        cluster.bind("first")
        cluster.make(gated(ALL, spec=named))
        await cluster.pass_by(100)
        assert cluster.gates() == [PLACEMENT_GATE]
        cluster.delete("first")
        await cluster.pass_by(5)

    assert cluster.pin() == "one"
    assert ("web", "NUMAGateKept") in cluster.reasons()


Follow = Callable[[type, str], Mock]


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Return the calls of a method from now on."""

    def follow(where: type, name: str) -> Mock:
        method = getattr(where, name)
        called: Mock = create_autospec(method, side_effect=method)
        monkeypatch.setattr(where, name, called)
        return called

    return follow


async def test_crowd_of_one_namespace_does_not_delay_another(cluster: GatedCluster, follow: Follow) -> None:
    """Each pod may need an evaluation of all nodes."""
    evaluated = follow(Exclusion, "of")
    await cluster.know({"small": SMALL}, others=GATED, labels={})
    crowd = [gated(FOUR, name=f"pod-{number}") for number in range(2 * OVERDUE_AT_ONCE)]
    await cluster.run(40, *crowd, gated(FOUR, name="other", namespace="others", creationTimestamp=LATER))

    namespaces = [call.args[1].namespace for call in evaluated.mock_calls]
    assert namespaces.index("others") == OVERDUE_AT_ONCE


HIGH, LOW = {"priority": 1000}, {"priority": 1}


async def test_freed_room_goes_to_the_higher_priority(cluster: GatedCluster) -> None:
    """After many attempts it is tried less often, and no lower one passes it."""
    await cluster.know({"one": ONE})

    async with cluster.running(gated(ALL, name="first")):
        await cluster.pass_by(1)
        cluster.make(gated(ALL, name="high", spec=HIGH))
        await cluster.pass_by(9)
        cluster.make(gated(ALL, name="low", spec=LOW))
        await cluster.pass_by(0.1)
        assert cluster.gates("high")
        cluster.delete("first")
        await cluster.pass_by(5)

    assert (cluster.pin("high"), bool(cluster.gates("low"))) == ("one", True)


ENFORCED = {**GATED, "enforce": SINGLE}


async def test_pod_waits_for_its_namespace_and_then_for_room() -> None:
    cluster = GatedCluster(patience=0)
    cluster.scorer.state.follows = True
    await cluster.scorer.know({"small": SMALL})

    async with cluster.running(gated(FOUR, policy=None), gated(FOUR, name="none", policy="none")):
        await cluster.pass_by(10)
        assert cluster.waiting() == ["web", "none"]
        await cluster.know({"small": SMALL}, team=ENFORCED)
        await cluster.pass_by(300)
        assert cluster.waiting() == ["web", "none"]
        await cluster.know({"a": EMPTY, "small": SMALL}, team=ENFORCED)
        await cluster.pass_by(15)

    assert (cluster.waiting(), cluster.pin(), cluster.pin("none")) == ([], "a", "a")


async def test_pod_without_the_default_of_its_namespace_is_let_go(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL}, team={**GATED, "default": SINGLE})

    async with cluster.running(gated(FOUR, policy=None)):
        await cluster.pass_by(2)
        assert cluster.gates()
        await cluster.know({"a": EMPTY}, team=OPEN)
        await cluster.pass_by(15)

    assert (cluster.gates(), cluster.pin()) == ([], None)


async def test_pod_with_another_gate_is_not_touched(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL})

    async with cluster.running(gated(FOUR, gates=("kueue", PLACEMENT_GATE))):
        await cluster.pass_by(100)
        assert (cluster.gates(), cluster.reads) == (["kueue", PLACEMENT_GATE], 0)
        cluster.make(gated(FOUR))
        await cluster.pass_by(35)

    assert cluster.gates() == []


async def test_pod_with_a_volume_is_restricted_to_fitting_nodes(cluster: GatedCluster) -> None:
    labels = {name: {HOSTNAME_LABEL: f"host-{name}"} for name in ("a", "b", "small")}
    await cluster.know({"a": EMPTY, "b": EMPTY, "small": SMALL}, labels=labels)
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}

    async with cluster.running(gated(FOUR, spec=claim)):
        await cluster.pass_by(2)
        assert cluster.reserved() == {"web": "a"}
        constraints = scheduling(cluster.pods["web"]).constraints
        assert [constraints.select(name, labels[name]) for name in ("b", "small")] == [True, False]
        cluster.bind("web", "b")

    assert cluster.reservations.node_of(uid("web")) == "b"
    assert cluster.count("gates_lifted_total", how="kept") == 1
    reason = "restricted to 2 nodes that fit now, because numalign does not evaluate its volumes"
    assert reason in cluster.events[0].message


# Crowds.


@pytest.mark.parametrize(("labels", "events"), [(GATED, 0), ({**GATED, "exclusive-cpus": "0"}, 100)])
async def test_equal_pods_share_one_evaluation(
    cluster: GatedCluster, follow: Follow, labels: Rules, events: int
) -> None:
    searched = follow(Chooser, "choose")
    await cluster.know({"small": SMALL}, team=labels)
    await cluster.run(10, *(gated(FOUR, name=f"n{number}") for number in range(100)))

    assert 1 <= searched.call_count <= 30
    assert (cluster.reads <= 200, len(cluster.reasons())) == (True, events)


@pytest.mark.full
async def test_many_different_pods_are_evaluated_in_turns(follow: Follow) -> None:
    """However many there are, a pod that comes later has its turn too."""
    cluster, searched = GatedCluster(patience=0), follow(Chooser, "choose")
    await cluster.know({"small": SMALL})

    async with cluster.running(*(gated(f"cpu=4 mem={n}Gi", name=f"n{n:03}") for n in range(1, 131))):
        assert searched.call_count <= keeper.MOST_NEW_MISSES
        while len({call.args[1].name for call in searched.mock_calls}) < 130:
            await cluster.pass_by(1)
        cluster.make(gated("cpu=2 mem=1Gi gpu=1", name="zz", creationTimestamp=LATER))
        await cluster.pass_by(4)

    assert cluster.pin("zz") == "small"


SIZES = st.sampled_from(["cpu=1 mem=1Gi", "cpu=3 mem=1Gi gpu=1", "cpu=4 mem=2Gi gpu=1", "cpu=8 mem=1Gi"])
ACTS = st.lists(
    st.tuples(SIZES, st.integers(0, 3), st.sampled_from(["bind", "wait", "delete"])), min_size=1, max_size=12
)


@given(ACTS)
@settings(max_examples=min(15, settings().max_examples))
async def test_no_zone_is_reserved_twice(acts: list[tuple[str, int, str]]) -> None:
    cluster = GatedCluster()
    await cluster.know({"a": EMPTY, "one": ONE})
    async with cluster.running():
        for number, (asks, priority, act) in enumerate(acts):
            cluster.make(gated(asks, name=f"n{number}", creationTimestamp=SOON, spec={"priority": priority}))
            await cluster.pass_by(0.5)
            for name in [name for name in cluster.pods if cluster.pin(name)][-2:]:
                if act == "bind" and "nodeName" not in cluster.pods[name]["spec"]:
                    cluster.bind(name)
                elif act == "delete":
                    cluster.delete(name)
            assert overbooked(cluster) == []


def overbooked(cluster: GatedCluster) -> list[tuple[str, str, str]]:
    """The nodes, zones and resources of which more is reserved than exists."""
    left = Counter[tuple[str, str, str]]()
    for name in cluster.reservations.node_names():
        info = cluster.reservations.node_info(name)
        assert info
        for zone in info.node.zones:
            left.update({(name, zone.name, each): amount for each, amount in zone.allocatable.items()})
        for pod in info.assigned_pods:
            for (zone_name,), bag in (pod.expected or {}).items():
                left.subtract({(name, zone_name, each): amount for each, amount in bag.items()})
    return [key for key, amount in left.items() if amount < 0]


# Quotas.


def quota(cpus: int) -> Mapping[str, str]:
    return {**GATED, "exclusive-cpus": str(cpus)}


async def test_pod_over_its_quota_waits_with_an_event(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY, "b": EMPTY}, team=quota(10))

    async with cluster.running(gated(ALL, name="first")):
        await cluster.pass_by(1)
        cluster.bind("first", "a")
        cluster.make(gated(ALL))
        await cluster.pass_by(100)
        assert cluster.gates()
        cluster.delete("first")
        await cluster.pass_by(5)

    assert cluster.pin() in {"a", "b"}
    assert cluster.reasons() == [("first", "NUMAPinned"), ("web", "NUMAOverQuota"), ("web", "NUMAPinned")]
    assert cluster.events[1].message == (
        "numalign: 8 of 10 exclusive CPUs of namespace team are in use, and the pod requests 8;"
        " its gate is lifted once the quota allows it"
    )


async def test_patience_begins_when_the_quota_allows_the_pod() -> None:
    cluster = GatedCluster(patience=30)
    await cluster.know({"small": SMALL}, team=quota(0))

    async with cluster.running(gated(FOUR)):
        await cluster.pass_by(60)
        assert cluster.gates()
        await cluster.know({"small": SMALL})
        await cluster.pass_by(20)
        assert cluster.gates()
        await cluster.pass_by(20)

    assert cluster.gates() == []


async def test_quota_used_up_during_the_choice_counts(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = Chooser.choose

    async def slow(*arguments: Any, **options: Any) -> object:  # noqa: ANN401  theirs
        chosen = await choose(*arguments, **options)
        cluster.make(on("b", raw(FOUR, name="other")))
        return chosen

    monkeypatch.setattr(Chooser, "choose", slow)
    await cluster.know({"a": EMPTY, "b": EMPTY}, **{TEAM: quota(7)})
    await cluster.run(2, gated(FOUR))

    assert (cluster.gates(), cluster.reserved()) == ([PLACEMENT_GATE], {})
    assert cluster.reasons() == [("web", "NUMAOverQuota")]
