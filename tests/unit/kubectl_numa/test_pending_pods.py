"""pending: why pods have no node, counted by cause, with whose they are and what would help."""

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kubectl_numa import explanation, pending_pods
from numalign.decision.wording import ago
from numalign.runtime.clock import utc_now
from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, manifest

Run = Callable[..., Result]
Snapshot = Callable[..., Path]

BORN = "2026-11-20T00:00:00Z"


def waiting(name: str, cpu: str, *, namespace: str = "team", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A pod that is to be aligned and has no node."""
    pod = manifest(name, cpu, policy=SINGLE, namespace=namespace)
    pod["metadata"] |= {"uid": f"uid-of-{namespace}-{name}", "creationTimestamp": BORN}
    pod["spec"] |= spec
    return pod | {"status": {"phase": "Pending"}}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}


def running(name: str, zone: int) -> dict[str, Any]:
    """A pod that holds 8 CPUs of a zone of `big`."""
    pod = waiting(name, "8", nodeName="big")
    held = [{"zones": [f"node-{zone}"], "amount": {"cpu": "8", "memory": "4Gi"}}]
    pod["metadata"]["annotations"]["numalign.io/placement-observed"] = json.dumps(held)
    pod["metadata"]["ownerReferences"] = [OWNER]
    return pod | {"status": {"phase": "Running", "startTime": BORN}}


def busy() -> list[dict[str, Any]]:
    """The small cluster, where three pods hold 24 of 32 CPUs of each zone of `big`."""
    items = deepcopy(ITEMS)
    items[0]["zones"][1]["resources"][0]["available"] = "8"
    return [*items, *(running(f"r{number}", number % 2) for number in range(6))]


@pytest.fixture
def with_pods(tmp_path: Path) -> Snapshot:
    """A snapshot of that cluster with these pods."""

    def of(*pods: object) -> Path:
        path = tmp_path / "pods.json"
        path.write_text(json.dumps({"kind": "List", "items": [*busy(), *pods]}))
        return path

    return of


def listed(run: Run, file: Path, *arguments: str) -> list[dict[str, Any]]:
    """What programs read."""
    result = run("pending", "--snapshot", file, "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    documents: list[dict[str, Any]] = json.loads(result.stdout)
    return documents


GATED: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
OURS: dict[str, Any] = {"schedulingGates": [{"name": "numalign.io/placement"}]}
ELSEWHERE: dict[str, Any] = {"nodeSelector": {"pool": "none"}}
NEVER = (
    'no node can align container "main" as single-numa-node (0 of 3 nodes): 1 has at most 32 cpu in one NUMA'
    " zone, 1 has at most 16 cpu in total, 1 publishes no NUMA topology"
)
UNREADABLE = (
    'cannot be read: spec.containers[0].resources.limits.cpu: "many" is not a quantity: write a number with'
    " at most one suffix, like 4, 500m or 16Gi"
)

CAUSES: list[tuple[str, dict[str, Any], str, str, str | None]] = [
    ("no zone is large enough", waiting("a", "40"), "never", NEVER, "Request at most 32 cpu."),
    ("no zone has room", waiting("a", "16"), "later",
     "no room now: nodes have no NUMA zone with 16 cpu and 4Gi memory free",
     "one fits on big after moving 1 pod"),
    ("others are more important", waiting("a", "16", priority=-5), "later",
     "no room now: nodes have no NUMA zone with 16 cpu and 4Gi memory free", "moving pods does not help"),
    ("there is room", waiting("a", "4", schedulerName="own"), "fits",
     "fits now, and the scheduler own has not placed it",
     "kubectl describe pod a -n team shows what its scheduler says"),
    ("it may go nowhere", waiting("a", "4", **ELSEWHERE), "never",
     "fits on no node: nodes didn't match the pod's node affinity/selector", None),
    ("a queue holds it", waiting("a", "4", **GATED), "gated",
     "held by the scheduling gate kueue.x-k8s.io/admission", None),
    ("our controller holds it", waiting("a", "4", **OURS), "fits",
     "fits now, and is held by the scheduling gate numalign.io/placement",
     "check that the controller runs with gates.enabled; its log says what it waits for"),
    ("it makes no sense", waiting("a", "many"), "unreadable",
     UNREADABLE, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "verdict", "reason", "remedy"), [pytest.param(*case, id=name) for name, *case in CAUSES]
)
def test_a_pod_is_pending_because(  # noqa: PLR0913, PLR0917  a table
    run: Run, with_pods: Snapshot, pod: dict[str, Any], verdict: str, reason: str, remedy: str | None
) -> None:
    [cause] = listed(run, with_pods(pod))

    assert (cause["verdict"], cause["reason"], cause["remedy"]) == (verdict, reason, remedy)


def test_there_is_a_line_for_each_cause(run: Run, with_pods: Snapshot) -> None:
    many = [waiting(f"a{number}", "40", namespace="lab") for number in range(2)]
    result = run("pending", "--snapshot", with_pods(*many, waiting("b", "50"), waiting("c", "4")))

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"      3 pods  {NEVER}  (lab 2, team 1)  oldest {age()}  Request at most 32 cpu.",
        f"       1 pod  {UNPLACED}  (team 1)  oldest {age()}  {SAYS}",
        "4 pods pending, 2 causes",
    ]


def age() -> str:
    """How long ago the pods were created."""
    return ago((utc_now() - datetime.fromisoformat(BORN)).total_seconds())


UNPLACED = "fits now, and its scheduler has not placed it"
SAYS = "kubectl describe pod c -n team shows what its scheduler says"


def test_programs_read_whose_they_are_and_which_is_the_oldest(run: Run, with_pods: Snapshot) -> None:
    young = waiting("young", "40")
    young["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    [cause] = listed(run, with_pods(young, waiting("old", "50", namespace="lab"), waiting("other", "50")))

    assert (cause["pods"], cause["namespaces"]) == (3, {"team": 2, "lab": 1})
    assert cause["oldest"] == {"namespace": "lab", "name": "old", "created": "2026-11-20T00:00:00+00:00"}


def test_a_table_and_names_are_those_of_the_oldest(run: Run, with_pods: Snapshot) -> None:
    file = with_pods(waiting("a", "40"), waiting("b", "40"))
    header, row = run("pending", "--snapshot", file, "-o", "wide").stdout.splitlines()

    assert header.split() == ["PODS", "VERDICT", "NAMESPACES", "OLDEST", "REASON", "OLDEST", "POD", "REMEDY"]
    assert row.split()[:4] == ["2", "never", "team", "2"]
    assert run("pending", "--snapshot", file, "-o", "name").stdout == "pod/a\n"


def test_only_pods_without_a_node_that_are_asked_for(run: Run, with_pods: Snapshot) -> None:
    bound = waiting("bound", "4", nodeName="big")
    leaving = waiting("leaving", "4")
    leaving["metadata"]["deletionTimestamp"] = BORN
    labelled = waiting("labelled", "4", namespace="lab")
    labelled["metadata"]["labels"] = {"app": "train"}
    file = with_pods(bound, leaving, labelled, waiting("other", "4"))

    assert [cause["pods"] for cause in listed(run, file)] == [2]
    assert [cause["namespaces"] for cause in listed(run, file, "-n", "lab")] == [{"lab": 1}]
    assert [cause["namespaces"] for cause in listed(run, file, "-A", "-l", "app=train")] == [{"lab": 1}]
    result = run("pending", "-n", "none", "--snapshot", file)
    assert (result.exit_code, result.stdout) == (0, "no pod without a node is pending\n")


def test_pods_that_request_the_same_are_evaluated_once(
    run: Run, with_pods: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their names and namespaces are."""
    explained: list[str] = []

    def explain(pod: Any, *others: Any, **more: Any) -> Any:  # noqa: ANN401  passed on
        explained.append(pod.name)
        return explanation.explain(pod, *others, **more)

    monkeypatch.setattr(pending_pods, "explain", explain)
    several = [
        waiting(f"{cpu}-{number}", cpu, namespace=f"team-{number % 7}")
        for cpu in ("4", "40")
        for number in range(200)
    ]

    assert [cause["pods"] for cause in listed(run, with_pods(*several))] == [200, 200]
    assert len(explained) == 2


def test_moves_are_looked_for_only_for_the_causes_of_the_most_pods(
    run: Run, with_pods: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_pods, "MOST_ADVISED", 1)
    pods = [waiting("a", "16"), waiting("b", "16"), waiting("c", "24")]
    most, fewest = listed(run, with_pods(*pods))

    assert most["remedy"] == "one fits on big after moving 1 pod"
    assert fewest["remedy"] == "kubectl numa defrag c -n team lists the pods that would have to move"


def test_without_topologies_no_node_can_be_evaluated(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS[2:], waiting("a", "4")]}))

    [cause] = listed(run, path)
    assert (cause["verdict"], cause["reason"]) == ("unknown", "no node publishes a NUMA topology")


def test_a_file_without_pods_is_no_cluster_in_which_none_is_pending(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_text(json.dumps({"kind": "List", "items": ITEMS}))
    result = run("pending", "--snapshot", path)

    assert result.exit_code == 2
    assert "the snapshot contains no pods" in result.stderr


BARE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "bare"},
    "status": {"allocatable": {"cpu": "400", "memory": "1Ti"}},
}


def test_a_node_without_a_topology_may_take_a_pod(run: Run, with_pods: Snapshot) -> None:
    [cause] = listed(run, with_pods(BARE, waiting("a", "300")))

    assert (cause["verdict"], cause["reason"]) == (
        "unknown",
        "no node with a NUMA topology can run it; 1 node without one may",
    )


NOT_ALL = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "numalign-shapes"},
    "data": {"leftOut": json.dumps({"lastSeen": utc_now().isoformat(), "devices": []})},
}


POOLED: dict[str, Any] = {
    **BARE,
    "metadata": {"name": "bare", "labels": {"karpenter.sh/nodepool": "default"}},
    "status": {"allocatable": {"cpu": "4"}},
}


@pytest.mark.parametrize("policy", [SINGLE, None])
@pytest.mark.parametrize(
    ("known", "who"),
    [
        (NOT_ALL, "one that is not remembered may"),
        (POOLED, "another one of node pool karpenter.sh/nodepool=default may"),
    ],
    ids=["not remembered", "of a pool"],
)
def test_a_node_that_is_not_known_may_take_a_pod(
    run: Run, with_pods: Snapshot, known: dict[str, Any], who: str, policy: str | None
) -> None:
    vast = waiting("vast", "300")
    if policy is None:
        vast["metadata"]["annotations"] = {}
    file = with_pods(known, vast)

    [cause] = listed(run, file)
    [explained] = json.loads(run("explain", "vast", "-n", "team", "--snapshot", file, "-o", "json").stdout)

    told = (cause["verdict"], cause["reason"])
    assert told == ("unknown", f"no known node can run it; {who}")
    assert (explained["refusal"], explained["never"]) == (None, None)


def test_without_running_pods_it_is_not_known_whether_moving_some_helps(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "full.json"
    path.write_text(json.dumps({"kind": "List", "items": [*busy()[: len(ITEMS)], waiting("a", "32")]}))

    for cause in listed(run, path):
        assert cause["remedy"] is None or "moving pods does not help" not in cause["remedy"]


def test_a_cordoned_node_is_no_reason_for_never(run: Run, tmp_path: Path) -> None:
    cordoned = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "big"},
        "spec": {"unschedulable": True},
    }
    items = [
        cordoned,
        *(item for item in busy() if (item["kind"], item["metadata"]["name"]) != ("Node", "big")),
    ]
    path = tmp_path / "cordoned.json"
    path.write_text(json.dumps({"kind": "List", "items": [*items, waiting("a", "24")]}))

    [cause] = listed(run, path)
    advice = json.loads(run("defrag", "a", "-n", "team", "--snapshot", path, "-o", "json").stdout)

    assert (cause["verdict"], advice["answer"], advice["proven"]) == ("later", "stuck", False)
