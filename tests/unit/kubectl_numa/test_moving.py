"""Pods out of documents, as they stand on nodes and as they would be made anew; and the answer in words."""

from typing import Any

import pytest

from kubectl_numa import moving
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from numalign.model.constraints import ANYWHERE
from numalign.model.intent import Match
from numalign.scheduling.defragmentation import Advice, Newcomer, Remedy, Resident
from tests.unit.kubectl_numa.objects import ITEMS, manifest
from tests.worlds.notation import table

SEEN = 1_790_000_000.0


def placed(*pods: dict[str, Any]) -> PlacedPods:
    """These pods in the small cluster."""
    return moving.placed_pods(cluster(), list(pods), match=Match.SATISFIES, complete=False)


def cluster() -> ClusterView:
    return ClusterView(snapshot.of(ITEMS), now=SEEN)


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:  # noqa: ANN401 any field of a spec
    """A pod on the big node."""
    made = manifest(name, "4")
    made["spec"] |= {"nodeName": "big", **spec}
    made["status"] = {"phase": "Running"}
    return made


def anew(one: dict[str, Any]) -> Newcomer | None:
    """What it would ask if it were made anew."""
    pods = placed(one)
    [stored] = pods.stored.values()
    return moving.newcomer(stored, cluster(), pods.state.reader)


def test_pods_that_run_hold_what_they_hold() -> None:
    pods = placed(pod("a"), pod("b"), {**pod("c"), "status": {"phase": "Failed"}}, manifest("waiting", "1"))

    assert sorted(each.name for each in pods.running) == ["a", "b"]
    assert pods.complete
    assert len({each.uid for each in pods.state.pods.values()}) == 4


def test_where_no_pods_are_told_of_nobody_knows_all() -> None:
    assert not placed().complete


def test_who_is_broken_is_told_of() -> None:
    broken = pod("a", containers=[{"name": "main", "resources": {"limits": {"cpu": "many"}}}])
    assert "many" in str(placed(broken).problems[0])


PIN = {"key": "metadata.name", "operator": "In", "values": ["big"]}
EXPRESSION = {"key": "pool", "operator": "In", "values": ["a"]}
PINNED = [
    # what it shows                        its terms                                          may go elsewhere
    ("by its own pin, which goes with it", [{"matchFields": [PIN]}],                          True),
    ("by its owner's term",                [{"matchExpressions": [EXPRESSION]}],              False),
    ("by a term with our pin in it",       [{"matchExpressions": [EXPRESSION], "matchFields": [PIN]}], False),
]  # fmt: skip


@pytest.mark.parametrize(("terms", "elsewhere"), table(PINNED))
def test_what_keeps_a_pod_that_is_made_anew(terms: list[Any], *, elsewhere: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pinned = pod(affinity={"nodeAffinity": required})
    pinned["metadata"]["annotations"] = {"numalign.io/pinned-at": "2026-11-23T00:00:00Z"}
    new = anew(pinned)

    assert new
    assert new.constraints.select("small", {}) == elsewhere
    assert new.constraints.select("small", {"pool": "a"})


def test_without_a_pin_of_ours_what_names_a_node_is_its_owners() -> None:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [PIN]}]}
    }
    new = anew(pod(affinity={"nodeAffinity": required}))

    assert new
    assert not new.constraints.select("small", {})


def test_a_pod_of_which_nobody_asks_anything_goes_where_it_may() -> None:
    excused = pod(nodeSelector={"pool": "a"})
    excused["metadata"]["namespace"] = "closed"
    new = anew(excused)

    assert new
    assert new.constraints != ANYWHERE
    assert not new.constraints.select("small", {})


def test_a_pod_that_makes_no_sense_is_not_made_anew() -> None:
    assert anew(pod(containers=[{"name": "main", "resources": {"limits": {"cpu": "many"}}}])) is None


PRIORITIES = [
    # what it shows                its spec                                        others        its priority
    ("its own",                    {"priority": 7, "priorityClassName": "high"},   [],           7),
    ("none is the least",          {},                                             [],           0),
    ("of a class of the cluster",  {"priorityClassName": "system-node-critical"}, [],    2_000_001_000),
    ("as others of its class",     {"priorityClassName": "high"},                  [("high", 9)], 9),
    ("nobody knows its class",     {"priorityClassName": "high"},                  [("low", 1)],  None),
    ("what is no class",           {"priorityClassName": 5},                       [],           0),
    ("what is no spec",            None,                                           [],           0),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "others", "priority"), table(PRIORITIES))
def test_the_priority_of_a_pod(spec: object, others: list[tuple[str, int]], priority: int | None) -> None:
    pods = placed(*(pod(name, priorityClassName=name, priority=value) for name, value in others))
    assert moving.priority_of({"spec": spec}, pods) == priority


ONE, TWO = (Resident(name, ("team", name)) for name in ("one", "two"))
SENTENCES = [
    # what it shows   the answer                                                what is said
    ("it fits",       Advice(Remedy.FITS, ("a", "b")),                         "fits now on a, b: nothing"),
    ("it never does", Advice(Remedy.NEVER),                                    "fits on none of the nodes"),
    ("one node",      Advice(Remedy.STUCK, candidates=1),                      "on the one node that could"),
    ("many nodes",    Advice(Remedy.STUCK, candidates=1200),                   "on any of 1,200 nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("advice", "sentence"), table(SENTENCES))
def test_the_answer_in_a_sentence(advice: Advice, sentence: str) -> None:
    assert sentence in moving.summary(advice)


def test_pods_are_told_by_name() -> None:
    assert moving.listed([ONE, TWO]) == "team/one, team/two"
