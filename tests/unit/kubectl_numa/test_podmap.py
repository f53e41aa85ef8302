"""Who holds what: amounts, CPU ids by zone and devices, as an agent tells them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.worlds.objects import machine_zone, node, nrt, reported

Run = Callable[..., Result]

UID = "00000000-0000-0000-0000-000000000001"
HELD = [
    {"zones": ["node-0"], "amount": {"cpu": "1"}},
    {"zones": ["node-1"], "amount": {"cpu": "2", "x/gpu": "1"}},
]


ALL_HELD = {"held": HELD, "cpus": "2,4-5"}
GPU_HELD = {"held": [{"zones": ["node-1"], "amount": {"x/gpu": "1"}}]}


def pod(policy: str, cpu: str) -> dict[str, Any]:
    """A pod that runs on the node `a`."""
    limits = {"cpu": cpu, "memory": "1Gi", "x/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "uid": UID,
            "annotations": {"numalign.io/policy": policy},
            "labels": {"app": "train"},
        },
        "spec": {"nodeName": "a", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., Path]:
    """A snapshot of a machine that its agent describes, with a pod of this policy."""
    devices = {"x/gpu": [{"zones": [1], "total": 2, "healthy": 2}]}
    zones = [machine_zone(0, reservedMemory=None), machine_zone(1, reservedMemory=None)]
    machine = {"zones": zones, "reservedSystemCPUs": "0", "devices": devices}

    def of(policy: str, *, cpu: str = "3", holds: object = ALL_HELD) -> Path:
        topology = reported(nrt("a", "node-0", "node-1"), machine, pods={UID: holds})
        path = tmp_path / "cluster.json"
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a"), topology, pod(policy, cpu)]})
        )
        return path

    return of


def test_cpus_are_told_by_zone(run: Run, cluster: Callable[[str], Path]) -> None:
    lines = run("pods", "--snapshot", cluster("restricted"), COLUMNS="200").stdout.splitlines()

    assert "    CPUs 2 in node-0; 4-5 in node-1" in lines


def test_a_table_tells_amounts_and_ids(run: Run, cluster: Callable[[str], Path]) -> None:
    header, row = run("pods", "--snapshot", cluster("restricted"), "-o", "wide").stdout.splitlines()

    assert header.split()[:7] == ["NAMESPACE", "NAME", "NODE", "POLICY", "ALIGNED", "ZONES", "CPUS"]
    assert row.split()[:7] == ["team", "train", "a", "restricted", "misaligned", "node-0,node-1", "3"]
    assert row.split()[7:11] == ["2,4-5", "<none>", "1", "x/gpu"]


def test_programs_read_the_ids(run: Run, cluster: Callable[[str], Path]) -> None:
    (told,) = json.loads(run("pods", "--snapshot", cluster("restricted"), "-o", "json").stdout)

    assert (told["cpus"], told["cpusByZone"]) == ("2,4-5", {"node-0": "2", "node-1": "4-5"})
    assert told["known"] == "kubelet"


IN_PART = (
    'restricted applies to x/gpu only: cpu is not pinned, because container "main" requests 2500m cpu,'
    " which is not a whole number"
)


def test_a_pod_of_which_only_devices_are_aligned_says_so_and_why(
    run: Run, cluster: Callable[..., Path]
) -> None:
    file = cluster("restricted", cpu="2500m", holds=GPU_HELD)

    assert run("pods", "--snapshot", file, COLUMNS="200").stdout.splitlines() == [
        "team/train  on a  restricted  aligned (devices only)",
        "    zone 1: 1 x/gpu",
        f"    {IN_PART}",
        "1 pod: 1 aligned (devices only)",
    ]
    (told,) = json.loads(run("pods", "--snapshot", file, "-o", "json").stdout)
    assert (told["aligned"], told["judgement"], told["extent"]) == (True, "aligned", "devices only")
    assert (told["notPinned"], told["why"]) == (["cpu"], IN_PART)


def test_check_lists_what_is_aligned_of_running_pods(run: Run, cluster: Callable[..., Path]) -> None:
    file = cluster("restricted", cpu="2500m", holds=GPU_HELD)

    (told,) = json.loads(run("check", "-A", "--snapshot", file, "-o", "json").stdout)
    assert (told["aligned"], told["extent"], told["notPinned"]) == (True, "devices only", ["cpu"])
    assert told["results"][0] == {"rule": "aligned", "outcome": "pass", "message": IN_PART}
    assert "devices only" in run("check", "-A", "--snapshot", file, "-o", "wide", COLUMNS="300").stdout


def test_who_asks_for_nothing_is_listed_on_request(run: Run, cluster: Callable[[str], Path]) -> None:
    file = cluster("none")

    assert run("pods", "--snapshot", file).stdout == "no running pod requests alignment\n"
    assert run("pods", "--all", "--snapshot", file, "-o", "name").stdout == "pod/train\n"
    listed = run("pods", "--all", "--snapshot", file, COLUMNS="200").stdout
    assert "team/train  on a  none  not requested" in listed


@pytest.mark.parametrize(("selector", "names"), [("app=train", "pod/train\n"), ("app!=train", "")])
def test_pods_are_chosen_by_labels(
    run: Run, cluster: Callable[[str], Path], selector: str, names: str
) -> None:
    answer = run("pods", "-A", "-l", selector, "--snapshot", cluster("restricted"), "-o", "name")

    assert answer.stdout == names
