"""pending: why pods have no node, counted by cause, with what would help."""

from datetime import datetime
from typing import Any

import pytest

from kubectl_numa import explanation, pending_pods
from numalign.decision.wording import ago
from numalign.runtime.clock import utc_now
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import (
    BORN,
    GATE,
    ITEMS,
    labelled,
    machine_object,
    running,
    topology,
    waiting,
)
from tests.worlds.notation import table
from tests.worlds.objects import Json

FULL = [topology("big", "32", ("8", "8")), *ITEMS[1:]]
PODS = [running(f"r{number}", number % 2) for number in range(6)]
"""Three pods hold 24 of 32 CPUs of each zone of `big`."""

USED = [*FULL, *PODS]


def causes(cli: Cli, *pods: Json, items: list[Json] = USED, flags: str = "") -> list[Json]:
    listed: list[Json] = cli.json("pending", "--snapshot", cli.cluster(*pods, items=items), *flags.split())
    return listed


def gated(name: str) -> Json:
    return waiting("a", "4", schedulingGates=[{"name": name}])


BARE = machine_object("bare", cpu="400", memory="1Ti")
POOLED = labelled(machine_object("bare", cpu="4"), **{"karpenter.sh/nodepool": "default"})
NOT_ALL = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "numalign-shapes"},
    "data": {"leftOut": f'{{"lastSeen": "{utc_now().isoformat()}", "devices": []}}'},
}
NEVER = (
    'no node can align container "main" as single-numa-node (0 of 3 nodes): 1 has at most 32 cpu in one NUMA'
    " zone, 1 has at most 16 cpu in total, 1 publishes no NUMA topology"
)
NO_ROOM = "no room now: nodes have no NUMA zone with 16 cpu and 4Gi memory free"
UNREADABLE = (
    'cannot be read: spec.containers[0].resources.limits.cpu: "many" is not a quantity: write a number with'
    " at most one suffix, like 4, 500m or 16Gi"
)
GATES_HELP = "check that the controller runs with gates.enabled; its log says what it waits for"
DESCRIBE = "kubectl describe pod {} -n team shows what its scheduler says".format
UNPLACED = "fits now, and its scheduler has not placed it"
CAUSES: list[tuple[str, list[Json], str, str, str | None]] = [
    # the pod and other objects, and its verdict, reason and remedy
    ("no zone is large enough", [waiting("a", "40")], "never", NEVER, "Request at most 32 cpu."),
    ("no zone has room", [waiting("a", "16")], "later", NO_ROOM, "one fits on big after moving 1 pod"),
    ("lower priority", [waiting("a", "16", priority=-5)], "later", NO_ROOM, "moving pods does not help"),
    ("room", [waiting("a", "4", schedulerName="own")], "fits",
        "fits now, and the scheduler own has not placed it", DESCRIBE("a")),
    ("no matching node", [waiting("a", "4", nodeSelector={"pool": "none"})], "never",
        "fits on no node: nodes didn't match the pod's node affinity/selector", None),
    ("a gate of another controller", [gated("kueue.x-k8s.io/admission")], "gated",
        "held by the scheduling gate kueue.x-k8s.io/admission", None),
    ("our gate", [gated(GATE)], "fits", f"fits now, and is held by the scheduling gate {GATE}", GATES_HELP),
    ("a mistake", [waiting("a", "many")], "unreadable", UNREADABLE, None),
    ("a large node without topology", [waiting("a", "300"), BARE], "unknown",
        "no node with a NUMA topology can run it; 1 node without one may", None),
    ("shapes that are not remembered", [waiting("a", "300"), NOT_ALL], "unknown",
        "no known node can run it; one that is not remembered may", None),
    ("a pool that may grow", [waiting("a", "300"), POOLED], "unknown",
        "no known node can run it; another one of node pool karpenter.sh/nodepool=default may", None),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "verdict", "reason", "remedy"), table(CAUSES))
def test_cause_of_a_pending_pod(
    cli: Cli, objects: list[Json], verdict: str, reason: str, remedy: str | None
) -> None:
    [cause] = causes(cli, *objects)
    words = ("explain", "a", "-n", "team", "--snapshot", cli.folder / "cluster.json")

    assert (cause["verdict"], cause["reason"], cause["remedy"]) == (verdict, reason, remedy)
    if verdict == "unknown":
        [explained] = cli.json(*words)
        assert (explained["refusal"], explained["never"]) == (None, None)


UNKNOWN: list[tuple[str, list[Json], str, str]] = [
    ("no topology", ITEMS[2:], "unknown", "no node publishes a NUMA topology"),
    ("a cordoned node", [FULL[0], {**FULL[2], "spec": {"unschedulable": True}}, *PODS], "later", ""),
    ("no running pods", FULL, "later", "no room now"),
]


@pytest.mark.parametrize(("items", "verdict", "reason"), table(UNKNOWN))
def test_what_is_unknown_is_never_denied(cli: Cli, items: list[Json], verdict: str, reason: str) -> None:
    [cause] = causes(cli, waiting("a", "24"), items=items)

    assert (cause["verdict"], cause["reason"][: len(reason)]) == (verdict, reason)
    assert PODS[0] in items or "moving pods does not help" not in (cause["remedy"] or "")


def test_text_has_a_line_for_each_cause(cli: Cli) -> None:
    many = [waiting(f"a{number}", "40", namespace="lab") for number in range(2)]
    path = cli.cluster(*many, waiting("b", "50"), waiting("c", "4"), items=USED)
    age = ago((utc_now() - datetime.fromisoformat(BORN)).total_seconds())

    assert cli("pending", "--snapshot", path).stdout.splitlines() == [
        f"      3 pods  {NEVER}  (lab 2, team 1)  oldest {age}  Request at most 32 cpu.",
        f"       1 pod  {UNPLACED}  (team 1)  oldest {age}  {DESCRIBE('c')}",
        "4 pods pending, 2 causes",
    ]


def test_json_has_namespaces_and_the_oldest_pod(cli: Cli) -> None:
    young = waiting("young", "40")
    young["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    [cause] = causes(cli, young, waiting("old", "50", namespace="lab"), waiting("other", "50"))

    assert (cause["pods"], cause["namespaces"]) == (3, {"team": 2, "lab": 1})
    assert cause["oldest"] == {"namespace": "lab", "name": "old", "created": "2026-11-20T00:00:00+00:00"}


def test_equal_requests_are_evaluated_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[str] = []

    def explain(pod: Any, *others: Any, **more: Any) -> Any:  # noqa: ANN401  any value
        explained.append(pod.name)
        return explanation.explain(pod, *others, **more)

    monkeypatch.setattr(pending_pods, "explain", explain)
    pods = [waiting(f"{at}", "4" if at % 2 else "40", namespace=f"team-{at % 7}") for at in range(60)]

    assert [cause["pods"] for cause in causes(cli, *pods)] == [30, 30]
    assert len(explained) == 2


def test_moves_are_sought_for_the_largest_causes(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_pods, "MOST_ADVISED", 1)
    most, fewest = causes(cli, waiting("a", "16"), waiting("b", "16"), waiting("c", "24"))

    assert most["remedy"] == "one fits on big after moving 1 pod"
    assert fewest["remedy"] == "kubectl numa defrag c -n team lists the pods that would have to move"
