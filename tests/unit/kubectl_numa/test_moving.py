"""Pods as their owners would create them again, and which of them defrag would move."""

from typing import Any

import pytest

from kubectl_numa import moving
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.files import snapshot
from numalign.model.intent import PLACEMENT, Match
from numalign.scheduling.defragmentation import Newcomer
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, manifest, running, topology, waiting
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


def recorded(name: str, cpu: str, zone: int, *, owned: bool = True, **spec: Any) -> Json:  # noqa: ANN401  any value
    """A pod without a policy whose placement was recorded when it was bound."""
    pod = running(name, zone, cpu=cpu, policy=None, key=PLACEMENT, **spec)
    if not owned:
        del pod["metadata"]["ownerReferences"]
    return pod


PODS = [recorded("a", "8", 0), recorded("b", "16", 1), waiting("waiting", "32")]
LARGE = manifest("large", "32", policy=SINGLE)
ONE_MOVES = "fits nowhere now, but would fit on big if team/a moved"


def defrag(cli: Cli, pod: Json, *pods: Json, items: list[Json] = ITEMS) -> tuple[object, ...]:
    """Return the words that ask for the moves for this pod on the small cluster with others."""
    return ("defrag", "-f", cli.write("p.yaml", pod), "--snapshot", cli.cluster(*pods, items=items))


def test_moves_are_listed_with_the_placement_after_them(cli: Cli) -> None:
    words = defrag(cli, LARGE, *PODS)
    lines = cli(*words).stdout.splitlines()
    answer = cli.json(*words)
    [plan] = answer.pop("plans")
    [move] = plan.pop("moves")

    assert lines.pop(4).startswith("    move  team/a (priority 0, ")
    assert lines == [
        "default/large requests single-numa-node alignment",
        f"  {ONE_MOVES}",
        "",
        "  room on big",
        "                to small: zone 0: 8 cpu, 4Gi memory",
        "    then  the pod gets zone 0: 32 cpu, 4Gi memory",
        "",
        "  moving fewer or less important pods would not be enough",
    ]
    facts = {"pod": "large", "namespace": "default", "priority": 0, "candidates": 1}
    assert answer == {**facts, "answer": "moves", "proven": True, "fits": [], "inTheWay": []}
    amount = {"cpu": "32", "memory": "4Gi"}
    assert plan == {"node": "big", "leaving": [], "placement": [{"zones": ["node-0"], "amount": amount}]}
    assert (move["name"], move["to"], move["afterThePod"]) == ("a", "small", False)


VAST = manifest("vast", "60", policy=SINGLE)
HIGH = {**LARGE, "spec": {**LARGE["spec"], "priorityClassName": "high"}}
BUSY = [topology("big", "32", ("4", "4")), *ITEMS[1:]]
ANSWERS = [
    # the pod, the others, the node objects, and what is printed
    ("it fits", manifest("a", policy=SINGLE), [], ITEMS, "fits now on big, small: nothing has to move"),
    ("it never fits", VAST, PODS, ITEMS, "fits on none of the nodes that it may run on"),
    ("a snapshot without pods", LARGE, [], BUSY,
        "the snapshot contains no pods on nodes, so none can move: write it with --with-pods"),
    ("an unknown priority class", HIGH, PODS, ITEMS, "specify it with --priority"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "others", "items", "part"), table(ANSWERS))
def test_answer_is_a_sentence(cli: Cli, pod: Json, others: list[Json], items: list[Json], part: str) -> None:
    result = cli(*defrag(cli, pod, *others, items=items), width=200)

    assert (result.exit_code, part in result.output) == (0, True)


def test_pods_that_may_not_move_are_listed(cli: Cli) -> None:
    pods = (recorded("a", "8", 0, priority=5), recorded("b", "16", 1, owned=False))
    text = " ".join(cli.text(*defrag(cli, LARGE, *pods), "--priority", 4).split())

    assert "moving pods does not help on the one node that could take it" in text
    assert "5 is above 4" in text.partition("stays team/a: ")[2].partition(" stays ")[0]
    assert "stays team/b: no controller owns it" in text


def test_pods_come_by_name_and_from_a_running_cluster(cli: Cli, served: FakeCluster) -> None:
    pod = cli.write("p.yaml", manifest("small", policy=SINGLE))

    assert ONE_MOVES in cli.text("defrag", "waiting", "-n", "team", "--snapshot", cli.cluster(*PODS))
    assert "fits now on" in cli.text("defrag", "-f", pod, "--kubeconfig", served.kubeconfig)


def test_explain_names_the_moves_in_one_line(cli: Cli) -> None:
    items = [topology("big", "32", ("24", "16")), *ITEMS[1:]]
    pod = cli.write("p.yaml", LARGE)
    words = ("explain", "-f", pod, "--snapshot")

    text = " ".join(cli.text(*words, cli.cluster(*PODS, items=items)).split())
    assert f"room: {ONE_MOVES}. See `kubectl numa defrag -f {pod}`" in text
    text = " ".join(cli.text(*words, cli.cluster(items=items)).split())
    assert f"room: `kubectl numa defrag -f {pod}` lists the pods that would have to move" in text
    assert cli.json(*words, cli.cluster(items=items))[0]["room"]
