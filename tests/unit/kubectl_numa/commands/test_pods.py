"""pods: what running pods hold, whether they are aligned, and which pods kubelets rejected."""

from pathlib import Path

from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest, rejected, running, waiting
from tests.worlds.objects import Json, machine_zone, node, nrt, reported

PODS = (running("good", 1), running("bad", 0, 1), running("reserved", 0, 1, key=PLACEMENT))


def annotated(pod: Json, key: str, value: str) -> Json:
    pod["metadata"]["annotations"][key] = value
    return pod


def test_each_pod_is_judged(cli: Cli) -> None:
    words = ("pods", "--snapshot", cli.cluster(*PODS))
    bad, good, reserved = cli.json(*words)

    assert cli.text(*words).splitlines() == [
        "team/bad  on big  single-numa-node  misaligned",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        f"    {bad['why']}",
        "team/good  on big  single-numa-node  aligned",
        "    zone 1: 8 cpu, 4Gi memory",
        "team/reserved  on big  single-numa-node  not judged",
        "    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu",
        "    no agent reported what it holds",
        "3 pods: 1 misaligned, 1 aligned, 1 not judged",
    ]
    assert [pod["aligned"] for pod in (bad, good, reserved)] == [False, True, None]
    assert [pod["known"] for pod in (bad, good, reserved)] == ["observed", "observed", "recorded"]
    assert (bad["judgement"], good["why"]) == ("misaligned", None)
    assert bad["why"].endswith("single-numa-node allows one")
    assert good["placement"] == [{"zones": ["node-1"], "amount": {"cpu": "8", "memory": "4Gi"}}]


def test_exclusive_pods_list_pods_in_their_zones(cli: Cli) -> None:
    alone = annotated(running("alone", 1), "numalign.io/exclusive", "zone")
    words = ("pods", "--snapshot", cli.cluster(alone, running("near", 1), running("far", 0)))

    assert (
        "team/alone  on big  single-numa-node, exclusive  aligned\n    zone 1: 8 cpu, 4Gi memory\n    shares"
        " its zones with team/near\n"
    ) in cli.text(*words)
    assert [(pod["name"], pod["exclusive"], pod["sharesWith"]) for pod in cli.json(*words)] == [
        ("alone", "zone", ["team/near"]),
        ("far", None, []),
        ("near", None, []),
    ]


def test_pods_without_a_policy_or_node_are_not_listed(cli: Cli) -> None:
    ended = running("ended", 0, 1) | {"status": {"phase": "Succeeded", "startTime": "2026-11-20T00:00:00Z"}}
    words = ("pods", "--snapshot", cli.cluster(ended, waiting("waiting"), running("plain", 0, policy="none")))

    assert cli.text(*words) == "no running pod requests alignment\n"
    assert cli.text(*words, "--all", "-o", "name") == "pod/plain\n"
    assert "team/plain  on big  none  not requested" in cli.text(*words, "--all")


def test_a_broken_annotation_leaves_the_other_pods(cli: Cli) -> None:
    broken = annotated(running("broken", 0, 1), PLACEMENT_OBSERVED, "{")
    result = cli("pods", "--snapshot", cli.cluster(broken, running("good", 1)))

    assert (result.exit_code, "skipped: " in result.stderr) == (0, True)
    assert "2 pods: 1 aligned, 1 not judged" in result.stdout


def test_latest_rejections_come_first(cli: Cli) -> None:
    failed = rejected("failed") | {"status": {"phase": "Failed", "reason": "Error"}}
    old, new = rejected("old", minutes=90), rejected("new", reason="OutOfcpu")
    words = ("pods", "--rejected", "--snapshot", cli.cluster(old, new, failed, manifest("b")))
    first, second = cli.json(*words)
    _, row, _ = cli.text(*words, "-o", "wide").splitlines()

    assert cli.text(*words, width=80).splitlines() == [
        "default/new of ReplicaSet/web",
        "    rejected by big 4 min ago: OutOfcpu: Resources cannot be allocated",
        "default/old of ReplicaSet/web",
        "    rejected by big 1 h ago: TopologyAffinityError: Resources cannot be",
        "    allocated",
        "2 pods: 1 OutOfcpu, 1 TopologyAffinityError",
    ]
    assert " ".join(row.split()).startswith("default new big 4 min ago OutOfcpu ReplicaSet/web")
    assert (first["name"], first["node"], first["reason"]) == ("new", "big", "OutOfcpu")
    assert (second["namespace"], second["owner"]) == ("default", {"kind": "ReplicaSet", "name": "web"})
    assert first["at"] > second["at"]


ALL = {
    "held": [
        {"zones": ["node-0"], "amount": {"cpu": "1"}},
        {"zones": ["node-1"], "amount": {"cpu": "2", "x/gpu": "1"}},
    ],
    "cpus": "2,4-5",
}
GPU = {"held": [{"zones": ["node-1"], "amount": {"x/gpu": "1"}}]}
IN_PART = (
    'restricted applies to x/gpu only: cpu is not pinned, because container "main" requests 2500m cpu,'
    " which is not a whole number"
)


def described(cli: Cli, cpu: str = "3", report: Json = ALL) -> Path:
    """Write a snapshot of a node whose agent reports this of its pod."""
    zones = [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)]
    devices = {"x/gpu": [{"zones": [1], "total": 2, "healthy": 2}]}
    machine = {"zones": zones, "reservedSystemCPUs": "0", "devices": devices}
    pod = running("train", policy="restricted", node="a")
    limits = {"cpu": cpu, "memory": "1Gi", "x/gpu": "1"}
    pod["spec"]["containers"][0]["resources"]["limits"] = limits
    topology = reported(nrt("a", "node-0", "node-1"), machine, pods={pod["metadata"]["uid"]: report})
    return cli.cluster(items=[node("a"), topology, pod])


def test_cpu_ids_are_listed_by_zone(cli: Cli) -> None:
    words = ("pods", "--snapshot", described(cli))
    [pod] = cli.json(*words)
    _, row = cli.text(*words, "-o", "wide").splitlines()

    assert "    CPUs 2 in node-0; 4-5 in node-1" in cli.text(*words).splitlines()
    assert " ".join(row.split()).startswith(
        "team train a restricted misaligned node-0,node-1 3 2,4-5 <none> 1 x/gpu"
    )
    assert (pod["cpus"], pod["cpusByZone"]) == ("2,4-5", {"node-0": "2", "node-1": "4-5"})
    assert pod["known"] == "kubelet"


def test_a_pod_with_aligned_devices_only_has_its_reason(cli: Cli) -> None:
    path = described(cli, "2500m", GPU)
    [pod] = cli.json("pods", "--snapshot", path)
    [checked] = cli.json("check", "-A", "--snapshot", path)

    assert cli.text("pods", "--snapshot", path).splitlines() == [
        "team/train  on a  restricted  aligned (devices only)",
        "    zone 1: 1 x/gpu",
        f"    {IN_PART}",
        "1 pod: 1 aligned (devices only)",
    ]
    assert (pod["judgement"], pod["why"]) == ("aligned", IN_PART)
    assert checked["results"][0] == {"rule": "aligned", "outcome": "pass", "message": IN_PART}
    for document in (pod, checked):
        facts = [document[key] for key in ("aligned", "extent", "notPinned")]
        assert facts == [True, "devices only", ["cpu"]]
    assert "devices only" in cli("check", "-A", "--snapshot", path, "-o", "wide").stdout
