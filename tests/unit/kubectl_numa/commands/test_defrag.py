"""defrag: which pods would have to move for a pod that has no room."""

from typing import Any

import pytest

from numalign.model.intent import PLACEMENT
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, manifest, running, topology, waiting
from tests.worlds.notation import table
from tests.worlds.objects import Json


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
