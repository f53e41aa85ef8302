"""What pods hold by the agent's report: amounts, CPU IDs by zone and devices."""

from pathlib import Path

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import running
from tests.worlds.objects import Json, machine_zone, node, nrt, reported

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
        assert (document["aligned"], document["extent"], document["notPinned"]) == (
            True,
            "devices only",
            ["cpu"],
        )
    assert "devices only" in cli("check", "-A", "--snapshot", path, "-o", "wide").stdout
