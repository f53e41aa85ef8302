"""Pods behind the gate are pinned in their order where they have zones, and let go where they have none."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gates.choosing import Chooser, ChosenNode, NoNode
from controller.gates.exclusion import Excluded, Exclusion, KeepGate
from controller.gates.keeper import MOST_NEW_MISSES, OVERDUE_AT_ONCE, REREAD_SECONDS, TURN_SECONDS
from controller.gates.pin import HOSTNAME_LABEL
from controller.gates.queue import LONGEST_LOOK
from numalign.cache.pod_question import MOST_TERMS
from numalign.kube.client import Patch
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.errors import Conflict
from numalign.kube.pod_informer import PodInfo
from numalign.model.attributes import Attributes, Labels
from numalign.model.constraints import Operator, Requirement, Term
from numalign.model.intent import NODE_LABEL, PINNED_AT, PLACEMENT, PLACEMENT_GATE
from numalign.model.node import CpuManager
from numalign.scheduling.scheduler_state import PendingPod
from tests.unit.controller.gates.conftest import GatedCluster, gated
from tests.worlds.notation import node, table
from tests.worlds.scorer import ALL, EMPTY, FOUR, LARGE, SINGLE, SMALL, Raw, on, raw, uid

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""One zone, for one pod of all of it."""

FULL = replace(SMALL, totals=node("", totals="cpu=3 mem=64Gi").totals)
"""Too small in total, as a scheduler sees it, too."""

NOT_SMALL = Requirement(NODE_LABEL, Operator.NOT_IN, frozenset({"small"}))

GATES = {"schedulingGates": [{"name": PLACEMENT_GATE}]}

NEW = "2027-01-15T08:00:00Z"
LATER = "2027-01-15T08:00:01Z"
"""When the tests begin, and a second later."""


async def test_a_pod_is_reserved_its_zones_pinned_and_let_go_in_one_write(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY, "small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)

    assert (cluster.gates(), cluster.pin()) == ([], "a")
    assert cluster.scorer.kept() == {"web": "a"}
    annotations = cluster.pod()["metadata"]["annotations"]
    assert annotations[PLACEMENT].startswith('[{"zones":["node-0"]')
    assert annotations[PINNED_AT].startswith("2027-01-15T08:00:0")
    assert len(cluster.store.patches) == 1
    assert cluster.reasons() == [("web", "NUMAPinned")]
    assert cluster.scorer.count("gates_lifted_total", how="pinned") == 1


async def test_the_reservation_follows_the_pod(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.bind("web", "a")
        assert cluster.scorer.kept() == {}
        await cluster.pass_by(90)

    held = cluster.reservations.assigned_pod(uid("web"))
    assert held
    assert held.record
    assert "NUMAPinnedNotPlaced" not in dict(cluster.reasons()).values()


async def test_a_pod_for_which_no_node_has_room_is_let_go_as_it_is(cluster: GatedCluster) -> None:
    await cluster.know({"full": FULL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(20)
        assert cluster.gates()
        await cluster.pass_by(12)

    assert (cluster.gates(), cluster.pin(), cluster.scorer.kept()) == ([], None, {})
    assert "affinity" not in cluster.pod()["spec"]
    [event] = cluster.events
    assert event.reason == "NUMAGateLifted"
    assert (
        "for 30 s no node had room: 0/1 nodes are available: 1 node(s) have less than 4 cpu" in event.message
    )


async def test_a_pod_is_kept_off_a_node_that_would_reject_it_by_the_write_that_lets_it_go(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"small": SMALL, "full": FULL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(32)

    [(_, patch, how)] = cluster.store.patches
    assert (cluster.gates(), how, patch["metadata"]["resourceVersion"]) == ([], Patch.MERGE, "1")
    assert scheduling(cluster.pod()).constraints.terms == (Term((NOT_SMALL,)),)
    [event] = cluster.events
    assert event.reason == "NUMAGateLifted"
    assert "kept off node small" in event.message


async def test_the_next_pod_is_kept_off_the_node_that_rejected_one(cluster: GatedCluster) -> None:
    cluster.refusing = ("small",)
    await cluster.know({"small": FULL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(32)

    assert scheduling(cluster.pod()).constraints.terms == (Term((NOT_SMALL,)),)


async def test_a_gate_stays_with_a_word_until_every_node_that_would_reject_the_pod_can_be_excluded(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"small": SMALL}, labels={})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(120)
        reads, kept = cluster.store.reads, cluster.gates()
        await cluster.pass_by(600)
        more = cluster.store.reads - reads
        await cluster.know({"small": SMALL})
        await cluster.pass_by(LONGEST_LOOK)

    assert (kept, cluster.gates()) == ([PLACEMENT_GATE], [])
    assert cluster.reasons() == [("web", "NUMAGateKept"), ("web", "NUMAGateLifted")]
    assert "node small, without the label numalign.io/node" in cluster.events[0].message
    assert [line["why"] for line in cluster.told.of("gate.kept")] == ["unlabelled"]
    assert cluster.scorer.count("gates_kept_total", reason="unlabelled") == 1
    # Each look reads the pod, as each evaluation after a while does.
    assert more <= 600 / LONGEST_LOOK + 600 / REREAD_SECONDS + 2


async def test_a_pod_whose_gate_stays_is_pinned_as_soon_as_there_is_room(cluster: GatedCluster) -> None:
    named = {"nodeSelector": {HOSTNAME_LABEL: "host"}}
    labels = {HOSTNAME_LABEL: "host", NODE_LABEL: "one"}
    one = replace(ONE, attributes=Attributes(Labels(labels)))
    await cluster.know({"one": one}, labels={"one": labels})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.bind("first", "one")
        cluster.make(gated(ALL, creationTimestamp=LATER, spec=named))
        await cluster.pass_by(100)
        kept = cluster.gates()
        cluster.delete("first")
        await cluster.pass_by(5)

    assert (kept, cluster.pin()) == ([PLACEMENT_GATE], "one")
    assert ("web", "NUMAGateKept") in cluster.reasons()


async def test_the_pods_of_one_namespace_do_not_keep_those_of_another_from_being_let_go(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may need an evaluation of all nodes of its own."""
    asked, find = [], Exclusion.of

    async def counted(
        self: Exclusion, pod: PodInfo, pending: PendingPod, *, terms: int
    ) -> Excluded | KeepGate:
        asked.append(pod.namespace)
        return await find(self, pod, pending, terms=terms)

    monkeypatch.setattr(Exclusion, "of", counted)
    await cluster.know({"small": SMALL}, others={"gate": "enabled"}, labels={})
    many = [gated(FOUR, name=f"pod-{number}", creationTimestamp=NEW) for number in range(2 * OVERDUE_AT_ONCE)]
    cluster.make(*many, gated(FOUR, name="other", namespace="others", creationTimestamp=LATER))

    async with cluster.running():
        await cluster.pass_by(40)

    assert asked.index("others") == OVERDUE_AT_ONCE


async def test_an_exclusion_that_the_api_server_refuses_is_found_again(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))
    cluster.store.failing = Conflict("it was changed")

    async with cluster.running():
        await cluster.pass_by(32)
        assert cluster.gates()
        cluster.store.failing = None
        await cluster.pass_by(5)

    assert scheduling(cluster.pod()).constraints.terms == (Term((NOT_SMALL,)),)


async def test_of_two_that_want_the_same_the_more_important_one_gets_it(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    low = gated(ALL, name="low", creationTimestamp=NEW, spec={"priority": 1})
    high = gated(ALL, name="high", creationTimestamp=NEW, spec={"priority": 1000})
    cluster.make(low, high)

    async with cluster.running():
        await cluster.pass_by(TURN_SECONDS)

    assert (cluster.pin("high"), cluster.gates("high"), bool(cluster.gates("low"))) == ("one", [], True)


async def test_of_equals_the_older_one_comes_first(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    cluster.make(gated(ALL, name="later", creationTimestamp=NEW), gated(ALL, name="older"))

    async with cluster.running():
        await cluster.pass_by(TURN_SECONDS)

    assert (cluster.pin("older"), bool(cluster.gates("later"))) == ("one", True)


async def test_room_that_comes_free_goes_to_who_waits(cluster: GatedCluster) -> None:
    await cluster.know({"one": ONE})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.make(gated(ALL, name="second", creationTimestamp=NEW))
        await cluster.pass_by(5)
        assert cluster.gates("second")
        cluster.delete("first")
        await cluster.pass_by(5)

    assert cluster.pin("second") == "one"


async def test_room_that_comes_free_goes_to_the_more_important_one_however_often_that_was_looked_at(
    cluster: GatedCluster,
) -> None:
    """Who was looked at in vain many times waits for longer, and nobody of less importance passes by."""
    await cluster.know({"one": ONE})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.make(gated(ALL, name="high", creationTimestamp=NEW, spec={"priority": 1000}))
        await cluster.pass_by(9)
        cluster.make(gated(ALL, name="low", creationTimestamp=NEW, spec={"priority": 1}))
        await cluster.pass_by(0.1)
        cluster.delete("first")
        await cluster.pass_by(5)

    assert (cluster.pin("high"), bool(cluster.gates("low"))) == ("one", True)


# Who is let go without waiting.

TOO_MANY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name"}]}] * (MOST_TERMS + 1)
            }
        }
    }
}

LET_GO: list[tuple[str, Raw, str]] = [
    # what it shows                  the pod                                            why
    ("who asks for nothing",         gated(FOUR, policy=None),                          "no longer requests"),
    ("who says none",                gated(FOUR, policy="none"),                        "no longer requests"),
    ("who asks for nonsense",        gated(FOUR, policy="nonsense"),                    "are invalid"),
    ("who has too much in it",       gated(FOUR, spec={**TOO_MANY}),           "more than 512 terms"),
]  # fmt: skip


@pytest.mark.parametrize("patience", [30.0, 0.0])
@pytest.mark.parametrize(("made", "why"), table(LET_GO))
async def test_nobody_is_kept_for_nothing(made: Raw, why: str, patience: float) -> None:
    cluster = GatedCluster(patience=patience)
    await cluster.know({"a": EMPTY})
    made["metadata"]["creationTimestamp"] = NEW
    cluster.make(made)

    async with cluster.running():
        await cluster.pass_by(2)

    assert (cluster.gates(), cluster.pin(), cluster.scorer.kept()) == ([], None, {})
    [event] = cluster.events
    assert (event.reason, why in event.message) == ("NUMAGateLifted", True)


async def test_a_pod_whose_namespace_says_nothing_any_more_is_let_go(cluster: GatedCluster) -> None:
    await cluster.know({"a": SMALL}, team={"default": SINGLE, "gate": "enabled"})
    cluster.make(gated(FOUR, policy=None, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(2)
        assert cluster.gates()
        await cluster.know({"a": SMALL}, team={})
        await cluster.pass_by(15)

    assert cluster.gates() == []


@pytest.mark.parametrize("policy", [None, "none"], ids=["removed", "changed"])
async def test_a_pod_whose_policy_is_taken_away_waits_for_what_its_namespace_enforces(
    cluster: GatedCluster, policy: str | None
) -> None:
    await cluster.know({"small": SMALL}, team={"enforce": SINGLE, "gate": "enabled"})
    cluster.make(gated(FOUR, policy=policy, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(2)
        assert cluster.gates()
        await cluster.know({"small": SMALL, "a": EMPTY}, team={"enforce": SINGLE, "gate": "enabled"})
        await cluster.pass_by(2)

    assert (cluster.gates(), cluster.pin()) == ([], "a")


async def test_a_pod_that_is_too_large_to_keep_is_pinned_as_it_is_read(cluster: GatedCluster) -> None:
    await cluster.know({"a": EMPTY})
    cluster.make(gated(*LARGE, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(2)

    assert (cluster.gates(), cluster.pin()) == ([], "a")


async def test_a_pod_waits_until_its_namespace_is_known(cluster: GatedCluster) -> None:
    cluster.scorer.state.follows = True
    await cluster.scorer.know({"a": EMPTY})
    cluster.make(gated(FOUR, policy=None, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(10)
        assert cluster.gates()
        await cluster.know({"a": EMPTY}, team={"default": SINGLE, "gate": "enabled"})
        await cluster.pass_by(5)

    assert (cluster.gates(), cluster.pin()) == ([], "a")


async def test_without_a_patience_pods_wait_without_end() -> None:
    cluster = GatedCluster(patience=0)
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        for _ in range(60):
            await cluster.pass_by(10)
        assert cluster.gates()
        await cluster.know({"a": EMPTY})
        for _ in range(3):
            await cluster.pass_by(5)

    assert cluster.pin() == "a"


# Other gates.


async def test_who_waits_for_others_too_is_left_alone_until_they_let_go(cluster: GatedCluster) -> None:
    await cluster.know({"small": SMALL})
    cluster.make(gated(FOUR, gates=("kueue", PLACEMENT_GATE), creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(100)
        assert (cluster.gates(), cluster.store.reads) == (["kueue", PLACEMENT_GATE], 0)
        cluster.make(gated(FOUR, creationTimestamp=NEW))
        await cluster.pass_by(25)
        assert cluster.gates() == [PLACEMENT_GATE]
        await cluster.pass_by(10)

    assert cluster.gates() == []


# What cannot be judged.


async def test_what_cannot_be_judged_is_kept_to_what_fits(cluster: GatedCluster) -> None:
    labels = {name: {HOSTNAME_LABEL: f"host-{name}"} for name in ("a", "b", "small")}
    await cluster.know({"a": EMPTY, "b": EMPTY, "small": SMALL}, labels=labels)
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    cluster.make(gated(FOUR, spec=claim, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(2)
        assert cluster.scorer.kept() == {"web": "a"}
        assert scheduling(cluster.pod()).constraints.select("b", labels["b"])
        assert not scheduling(cluster.pod()).constraints.select("small", labels["small"])
        cluster.bind("web", "b")

    assert cluster.reservations.node_of(uid("web")) == "b"
    assert cluster.scorer.count("gates_lifted_total", how="kept") == 1
    [event] = cluster.events
    assert (
        "restricted to 2 nodes that fit now, because numalign does not evaluate its volumes" in event.message
    )


# Crowds.


async def test_of_a_crowd_that_asks_alike_one_is_answered_for_all(
    cluster: GatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_choices(monkeypatch)
    await cluster.know({"small": SMALL})
    cluster.make(*(gated(FOUR, name=f"n{number}", creationTimestamp=NEW) for number in range(100)))

    async with cluster.running():
        await cluster.pass_by(10)

    assert 1 <= len(asked) <= 30
    assert cluster.store.reads <= 200


@pytest.mark.full
async def test_who_asks_very_much_is_answered_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much that is, a pod that comes later has its turn too."""
    cluster, asked = GatedCluster(patience=0), count_choices(monkeypatch)
    await cluster.know({"small": SMALL})
    cluster.make(*(gated(f"cpu=4 mem={n}Gi", name=f"n{n:03}", creationTimestamp=NEW) for n in range(1, 131)))

    async with cluster.running():
        assert len(asked) <= MOST_NEW_MISSES
        while len({*asked}) < 130:
            await cluster.pass_by(1)
        cluster.make(gated("cpu=2 mem=1Gi gpu=1", name="zz", creationTimestamp=LATER))
        for _ in range(4):
            await cluster.pass_by(1)

    assert cluster.pin("zz") == "small"


def count_choices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that nodes are asked about from now on."""
    asked, choose = list[str](), Chooser.choose

    async def counted(
        chooser: Chooser, pod: PodInfo, pending: PendingPod, *, spread: bool
    ) -> ChosenNode | NoNode:
        asked.append(pod.name)
        return await choose(chooser, pod, pending, spread=spread)

    monkeypatch.setattr(Chooser, "choose", counted)
    return asked


SIZES = st.sampled_from(["cpu=1 mem=1Gi", "cpu=3 mem=1Gi gpu=1", "cpu=4 mem=2Gi gpu=1", "cpu=8 mem=1Gi"])
ACTS = st.lists(
    st.tuples(SIZES, st.integers(0, 3), st.sampled_from(["bind", "wait", "delete"])), min_size=1, max_size=12
)


@given(ACTS)
@settings(max_examples=15)
async def test_no_zone_is_ever_reserved_twice(acts: list[tuple[str, int, str]]) -> None:
    """Whatever pods come, in whichever order they are bound or deleted."""
    cluster = GatedCluster()
    await cluster.know({"a": EMPTY, "one": ONE})
    async with cluster.running():
        for number, (asks, priority, act) in enumerate(acts):
            name = f"n{number}"
            cluster.make(gated(asks, name=name, creationTimestamp=NEW, spec={"priority": priority}))
            await cluster.pass_by(0.5)
            pinned = [each for each in cluster.store.pods if cluster.pin(each)]
            for each in pinned[-2:]:
                node = cluster.pin(each)
                if act == "bind" and node and "nodeName" not in cluster.pod(each)["spec"]:
                    cluster.bind(each, node)
                elif act == "delete":
                    cluster.delete(each)
            assert overbooked(cluster) == []


def overbooked(cluster: GatedCluster) -> list[tuple[str, str, str]]:
    """The node, zone and resource of which more is kept for pods than there is."""
    too_much = []
    for name in cluster.reservations.node_names():
        info = cluster.reservations.node_info(name)
        assert info
        used = Counter[tuple[str, str]]()
        for pod in info.assigned_pods:
            for zones, bag in (pod.expected or {}).items():
                assert len(zones) == 1
                used.update({(zones[0], resource): amount for resource, amount in bag.items()})
        has = {
            (zone.name, resource): amount
            for zone in info.node.zones
            for resource, amount in zone.allocatable.items()
        }
        too_much += [(name, *key) for key, amount in used.items() if amount > has[key]]
    return too_much


# Quotas.


async def test_a_pod_beyond_its_quota_waits_for_longer_than_its_patience_and_is_told_why() -> None:
    cluster = GatedCluster(patience=30.0)
    await cluster.know({"a": EMPTY, "b": EMPTY}, team={"gate": "enabled", "exclusive-cpus": "10"})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.bind("first", "a")
        cluster.make(gated(ALL, name="second", creationTimestamp=NEW))
        await cluster.pass_by(100)
        waited = cluster.gates("second")
        cluster.delete("first")
        await cluster.pass_by(5)

    assert waited
    assert cluster.pin("second") in {"a", "b"}
    assert cluster.reasons() == [
        ("first", "NUMAPinned"),
        ("second", "NUMAOverQuota"),
        ("second", "NUMAPinned"),
    ]
    assert cluster.events[1].message == (
        "numalign: 8 of 10 exclusive CPUs of namespace team are in use, and the pod requests 8;"
        " its gate is lifted once the quota allows it"
    )


async def test_as_many_are_pinned_at_once_as_the_quota_has_cpus() -> None:
    cluster = GatedCluster()
    await cluster.know({"a": EMPTY, "b": EMPTY}, team={"gate": "enabled", "exclusive-cpus": "10"})
    cluster.make(*(gated("cpu=2 mem=1Gi", name=f"pod-{at}", creationTimestamp=NEW) for at in range(8)))

    async with cluster.running():
        await cluster.pass_by(20)

    assert sum(not cluster.gates(f"pod-{at}") for at in range(8)) == 5


async def test_the_quota_of_one_namespace_is_no_reason_for_another(cluster: GatedCluster) -> None:
    """Both ask for the same, of which nothing is left to the first."""
    enabled = {"gate": "enabled"}
    await cluster.know({"a": EMPTY}, team={**enabled, "exclusive-cpus": "0"}, others=enabled)
    cluster.make(
        gated(FOUR, name="limited"),
        gated(FOUR, name="free", namespace="others", creationTimestamp=NEW),
    )

    async with cluster.running():
        await cluster.pass_by(2)

    assert (cluster.pin("free"), bool(cluster.gates("limited"))) == ("a", True)


async def test_the_patience_of_a_pod_begins_when_its_quota_lets_it_through() -> None:
    cluster = GatedCluster(patience=30.0)
    await cluster.know({"small": SMALL}, team={"gate": "enabled", "exclusive-cpus": "0"})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(60)
        await cluster.know({"small": SMALL})
        await cluster.pass_by(20)
        waited = cluster.gates()
        await cluster.pass_by(20)

    assert (bool(waited), cluster.gates()) == (True, [])


async def test_nodes_are_asked_about_one_of_many_alike_that_are_beyond_their_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, asked = GatedCluster(), count_choices(monkeypatch)
    await cluster.know({"a": EMPTY}, team={"gate": "enabled", "exclusive-cpus": "0"})
    cluster.make(*(gated(FOUR, name=f"pod-{at}", creationTimestamp=NEW) for at in range(30)))

    async with cluster.running():
        await cluster.pass_by(TURN_SECONDS)

    assert len(asked) == 1
    assert len(cluster.reasons()) == 30


async def test_beyond_its_quota_a_pod_goes_where_no_cpus_are_pinned_and_waits_for_either_otherwise() -> None:
    cluster = GatedCluster(patience=30.0)
    shared = replace(ONE, cpu_manager=CpuManager.NONE)
    await cluster.know({"a": EMPTY, "shared": shared}, team={"gate": "enabled", "exclusive-cpus": "0"})
    cluster.make(gated(ALL, name="first", creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        pinned = cluster.pin("first")
        cluster.bind("first", "shared")
        cluster.make(gated(ALL, name="second", creationTimestamp=NEW))
        await cluster.pass_by(100)

    assert (pinned, bool(cluster.gates("second"))) == ("shared", True)
    assert cluster.reasons() == [("first", "NUMAPinned"), ("second", "NUMAOverQuota")]


async def test_the_gate_of_a_pod_that_may_not_use_what_its_quota_excludes_is_lifted_as_any(
    cluster: GatedCluster,
) -> None:
    labels = Attributes(Labels({"pool": "shared"}))
    shared = replace(ONE, cpu_manager=CpuManager.NONE, attributes=labels)
    await cluster.know({"a": EMPTY, "shared": shared}, team={"gate": "enabled", "exclusive-cpus": "0"})
    only = {"nodeSelector": {"pool": "shared"}}
    cluster.make(gated(ALL, name="first", spec=only, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.bind("first", "shared")
        cluster.make(gated(ALL, name="second", spec=only, creationTimestamp=NEW))
        await cluster.pass_by(50)

    assert cluster.reasons() == [("first", "NUMAPinned"), ("second", "NUMAGateLifted")]


async def test_a_quota_that_is_used_up_while_a_node_is_chosen_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, choose = GatedCluster(), Chooser.choose
    await cluster.know({"a": EMPTY, "b": EMPTY}, team={"gate": "enabled", "exclusive-cpus": "7"})
    other = on("b", raw(FOUR, name="other"))

    async def slow(
        chooser: Chooser, pod: PodInfo, pending: PendingPod, *, spread: bool
    ) -> ChosenNode | NoNode:
        chosen = await choose(chooser, pod, pending, spread=spread)
        cluster.make(other)
        return chosen

    monkeypatch.setattr(Chooser, "choose", slow)
    cluster.make(gated(FOUR, creationTimestamp=NEW))
    async with cluster.running():
        await cluster.pass_by(2)

    assert (bool(cluster.gates()), cluster.scorer.kept()) == (True, {})
    assert [reason for _, reason in cluster.reasons()] == ["NUMAOverQuota"]


async def test_a_pod_beyond_its_quota_waits_even_if_its_patience_ends_before_it_is_tried_again() -> None:
    cluster = GatedCluster(patience=1.0)
    await cluster.know({"a": EMPTY}, team={"gate": "enabled", "exclusive-cpus": "0"})
    cluster.make(gated(FOUR, creationTimestamp=NEW))

    async with cluster.running():
        await cluster.pass_by(30)

    assert cluster.gates()
