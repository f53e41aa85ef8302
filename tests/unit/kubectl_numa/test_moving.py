"""Pods of documents, as they are on nodes and as their owners would create them again."""

import pytest

from kubectl_numa import moving
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.files import snapshot
from numalign.model.intent import Match
from numalign.scheduling.defragmentation import Newcomer
from tests.unit.kubectl_numa.objects import ITEMS, running, waiting
from tests.worlds.notation import table
from tests.worlds.objects import Json

CLUSTER = ClusterView(snapshot.of(ITEMS), now=1_790_000_000.0)


def placed(*pods: Json) -> PlacedPods:
    return moving.placed_pods(CLUSTER, list(pods), match=Match.SATISFIES, complete=False)


def web(name: str = "web", **spec: object) -> Json:
    return running(name, cpu="4", policy=None, **spec)  # type: ignore[arg-type]  # a field of its spec


def created_again(pod: Json) -> Newcomer | None:
    """What a pod requests when its owner creates it again."""
    pods = placed(pod)
    [stored] = pods.stored.values()
    return moving.newcomer(stored, CLUSTER, pods.state.reader)


BROKEN = web("a", containers=[{"name": "main", "resources": {"limits": {"cpu": "many"}}}])


def test_pods_are_placed_with_their_problems() -> None:
    pods = placed(web("a"), web("b"), {**web("c"), "status": {"phase": "Failed"}}, waiting("d"))

    assert sorted(each.name for each in pods.running) == ["a", "b"]
    assert (pods.complete, placed().complete) == (True, False)
    assert len({each.uid for each in pods.state.pods.values()}) == 4
    assert "many" in str(placed(BROKEN).problems[0])
    assert created_again(BROKEN) is None


PIN = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["big"]}]}
TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
PINNED = [
    # the annotations, the term of its node affinity, and whether it may go to another node
    ("our pin, which is not created again", {"numalign.io/pinned-at": "2026-11-23T00:00:00Z"}, PIN, True),
    ("its owner's term", {"numalign.io/pinned-at": "2026-11-23T00:00:00Z"}, TERM, False),
    ("its owner's term with our pin", {"numalign.io/pinned-at": "2026-11-23T00:00:00Z"}, {**TERM,
        **PIN}, False),
    ("its owner's pin", {}, PIN, False),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "term", "elsewhere"), table(PINNED))
def test_only_our_pin_is_dropped(annotations: dict[str, str], term: Json, *, elsewhere: bool) -> None:
    pod = web(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    pod["metadata"]["annotations"] = annotations
    again = created_again(pod)

    assert again
    assert again.constraints.select("small", {}) == elsewhere
    assert again.constraints.select("small", {"pool": "a"}) == (term is not PIN or elsewhere)


def test_an_exempt_pod_keeps_its_selector() -> None:
    again = created_again(web(namespace="closed", nodeSelector={"pool": "a"}))

    assert again
    assert not again.constraints.select("small", {})


PRIORITIES = [
    # its spec, the classes of other pods, and its priority
    ("its own",            {"priority": 7, "priorityClassName": "high"},   [],           7),
    ("none is the least",  {},                                             [],           0),
    ("a built-in class",   {"priorityClassName": "system-node-critical"},  [],           2_000_001_000),
    ("as its class",       {"priorityClassName": "high"},                  [("high", 9)], 9),
    ("an unknown class",   {"priorityClassName": "high"},                  [("low", 1)],  None),
    ("no class",           {"priorityClassName": 5},                       [],           0),
    ("no spec",            None,                                           [],           0),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "others", "priority"), table(PRIORITIES))
def test_priority_of_a_pod(spec: object, others: list[tuple[str, int]], priority: int | None) -> None:
    pods = placed(*(web(name, priorityClassName=name, priority=value) for name, value in others))

    assert moving.priority_of({"spec": spec}, pods) == priority
