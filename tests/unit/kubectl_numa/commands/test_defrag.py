"""defrag: who would have to move, on a cluster in a file, and for whom to ask."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, manifest
from tests.worlds.notation import table

Write = Callable[..., Path]
Crowded = Callable[..., Path]
Run = Callable[..., Result]

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


def placed(
    name: str,
    cpus: int,
    node: str,
    zone: int,
    *,
    owner: object = OWNER,
    **spec: Any,  # noqa: ANN401 any field of a spec
) -> dict[str, Any]:
    """A pod that runs, and what it holds."""
    pod = manifest(name, str(cpus), namespace="team")
    held = [{"zones": [f"node-{zone}"], "amount": {"cpu": str(cpus), "memory": "4Gi"}}]
    pod["metadata"] |= {
        "uid": f"uid-of-{name}",
        "annotations": {"numalign.io/placement": json.dumps(held)},
        "ownerReferences": [owner] if owner else [],
        "creationTimestamp": "2026-11-20T00:00:00Z",
    }
    pod["spec"] |= {"nodeName": node, **spec}
    return pod | {
        "status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z", "qosClass": "Guaranteed"}
    }


WAITING = {**manifest("waiting", "32", policy=SINGLE, namespace="team")}
WAITING["metadata"] |= {"uid": "uid-of-waiting"}
PODS = [placed("a", 8, "big", 0), placed("b", 16, "big", 1), WAITING]
LARGE = manifest("large", "32", policy=SINGLE)


@pytest.fixture
def crowded(tmp_path: Path) -> Crowded:
    """A snapshot of the small cluster with some pods."""

    def of(*pods: dict[str, Any]) -> Path:
        path = tmp_path / "crowded.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*ITEMS, *pods]}))
        return path

    return of


def test_it_says_who_moves_and_where_to(run: Run, crowded: Crowded, write: Write) -> None:
    result = run("defrag", "-f", write("p.yaml", LARGE), "--snapshot", crowded(*PODS))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "default/large requests single-numa-node alignment",
        "  fits nowhere now, but would fit on big if team/a moved",
        "",
        "  room on big",
        result.stdout.splitlines()[4],
        "                to small: zone 0: 8 cpu, 4Gi memory",
        "    then  the pod gets zone 0: 32 cpu, 4Gi memory",
        "",
        "  moving fewer or less important pods would not be enough",
    ]
    assert result.stdout.splitlines()[4].startswith("    move  team/a (priority 0, ")


def test_json_says_the_same(run: Run, crowded: Crowded, write: Write) -> None:
    result = run("defrag", "-f", write("p.yaml", LARGE), "--snapshot", crowded(*PODS), "-o", "json")
    answer = json.loads(result.stdout)
    [plan] = answer.pop("plans")
    [move] = plan.pop("moves")

    assert answer == {
        "pod": "large",
        "namespace": "default",
        "priority": 0,
        "answer": "moves",
        "proven": True,
        "candidates": 1,
        "fits": [],
        "inTheWay": [],
    }
    amount = {"cpu": "32", "memory": "4Gi"}
    assert plan == {"node": "big", "leaving": [], "placement": [{"zones": ["node-0"], "amount": amount}]}
    assert (move["name"], move["to"], move["afterThePod"]) == ("a", "small", False)


def test_a_pod_that_waits_goes_by_its_name(run: Run, crowded: Crowded) -> None:
    result = run("defrag", "waiting", "-n", "team", "--snapshot", crowded(*PODS))
    assert "fits nowhere now, but would fit on big if team/a moved" in result.stdout


def test_what_fits_moves_nobody(run: Run, crowded: Crowded, write: Write) -> None:
    pod = write("p.yaml", manifest("small", "8", policy=SINGLE))
    assert (
        "fits now on big, small: nothing has to move"
        in run("defrag", "-f", pod, "--snapshot", crowded()).stdout
    )


def test_what_never_fits_is_told_why(run: Run, crowded: Crowded, write: Write) -> None:
    result = run(
        "defrag", "-f", write("p.yaml", manifest("vast", "60", policy=SINGLE)), "--snapshot", crowded(*PODS)
    )
    assert "fits on none of the nodes that it may run on" in result.stdout
    assert "never:" in result.stdout
    assert "at most 32 cpu" in " ".join(result.stdout.split())


STAYS = [
    # what it shows               the pod in the way                                    why it stays
    ("nobody makes it anew",      {"owner": None},                                      "no controller"),
    ("it counts for more",        {"priority": 5},                                      "5 is above 4"),
    ("what it has stays behind",  {"volumes": [{"name": "v", "emptyDir": {}}]},                "emptyDir"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "why"), table(STAYS))
def test_who_may_not_move_is_named(
    run: Run, crowded: Crowded, write: Write, facts: dict[str, Any], why: str
) -> None:
    pods = crowded(placed("a", 8, "big", 0, **facts), placed("b", 16, "big", 1, owner=None))
    result = run("defrag", "-f", write("p.yaml", LARGE), "--snapshot", pods, "--priority", 4)
    told = " ".join(result.stdout.split())

    assert "moving pods does not help on the one node that could take it" in told
    assert why in told.partition("stays team/a: ")[2].partition(" stays ")[0]
    assert "stays team/b: no controller owns it" in told


def test_without_pods_it_says_how_to_have_them(run: Run, write: Write) -> None:
    busy = json.loads(json.dumps(ITEMS[0]))
    for zone in busy["zones"]:
        zone["resources"][0]["available"] = "4"
    path = write("cluster.yaml", busy)
    result = run("defrag", "-f", write("p.yaml", LARGE), "--snapshot", path)
    assert (
        "the snapshot contains no pods on nodes, so none can move: write it with --with-pods" in result.stderr
    )


def test_a_priority_class_that_nobody_knows_is_told_of(run: Run, crowded: Crowded, write: Write) -> None:
    pod = json.loads(json.dumps(LARGE))
    pod["spec"]["priorityClassName"] = "high"
    result = run("defrag", "-f", write("p.yaml", pod), "--snapshot", crowded(*PODS))

    assert (result.exit_code, "specify it with --priority" in result.stderr) == (0, True)


def test_a_live_cluster_is_asked_for_its_pods(run: Run, api_server: Path, write: Write) -> None:
    pod = write("p.yaml", manifest("small", "8", policy=SINGLE))
    result = run("defrag", "-f", pod, KUBECONFIG=str(api_server))

    assert (result.exit_code, "fits now on" in result.stdout) == (0, True)


def test_explain_says_it_in_a_line_where_there_is_no_room_now(run: Run, write: Write) -> None:
    items = json.loads(json.dumps(ITEMS))
    items[0]["zones"][0]["resources"][0]["available"] = "24"
    items[0]["zones"][1]["resources"][0]["available"] = "16"
    path = write("cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items, *PODS]}))
    pod = write("p.yaml", LARGE)
    result = run("explain", "-f", pod, "--snapshot", path)
    told = " ".join(result.stdout.split())
    moved = "fits nowhere now, but would fit on big if team/a moved"
    assert f"room: {moved}. See `kubectl numa defrag -f {pod}`" in told

    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    told = " ".join(run("explain", "-f", pod, "--snapshot", path).stdout.split())
    assert f"room: `kubectl numa defrag -f {pod}` lists the pods that would have to move" in told
