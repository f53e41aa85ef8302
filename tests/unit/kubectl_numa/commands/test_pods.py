"""pods: how running pods sit, in words and for programs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED
from tests.unit.kubectl_numa.objects import ITEMS, SINGLE, manifest

Run = Callable[..., Result]
Snapshot = Callable[..., Path]


def placed(
    name: str, *zones: int, key: str = PLACEMENT_OBSERVED, policy: str = SINGLE, namespace: str = "team"
) -> dict[str, Any]:
    """A pod of 8 CPUs that runs on the node `big`, with as many of them from each of these zones."""
    pod = manifest(name, "8", policy=policy, namespace=namespace)
    amounts = [{"cpu": str(8 // len(zones)), **({} if at else {"memory": "4Gi"})} for at in range(len(zones))]
    held = [{"zones": [f"node-{zone}"], "amount": bag} for zone, bag in zip(zones, amounts, strict=True)]
    pod["metadata"]["uid"] = f"uid-of-{name}"
    pod["metadata"].setdefault("annotations", {})[key] = json.dumps(held)
    pod["spec"]["nodeName"] = "big"
    return pod | {"status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"}}


@pytest.fixture
def with_pods(tmp_path: Path) -> Snapshot:
    """A snapshot of the small cluster with these pods."""

    def of(*pods: object) -> Path:
        path = tmp_path / "pods.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*ITEMS, *pods]}))
        return path

    return of


PODS = (placed("good", 1), placed("bad", 0, 1), placed("reserved", 0, 1, key=PLACEMENT))


def test_each_pod_says_how_it_sits(run: Run, with_pods: Snapshot) -> None:
    result = run("pods", "--snapshot", with_pods(*PODS), COLUMNS="200")

    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "team/bad  on big  single-numa-node  misaligned\n    zone 0: 4 cpu, 4Gi memory; zone 1: 4 cpu\n   "
        ' container "main" holds cpu in zone 0 and zone 1 and memory in zone 0: 2 NUMA zones, and'
        " single-numa-node allows one\nteam/good  on big  single-numa-node  aligned\n    zone 1: 8 cpu, 4Gi"
        " memory\nteam/reserved  on big  single-numa-node  not judged\n    zone 0: 4 cpu, 4Gi memory; zone"
        " 1: 4 cpu\n    no agent reported what it holds\n3 pods: 1 misaligned, 1 aligned, 1 not judged\n"
    )


def test_programs_read_the_same(run: Run, with_pods: Snapshot) -> None:
    listed = json.loads(run("pods", "--snapshot", with_pods(*PODS), "-o", "json").stdout)

    assert [(pod["name"], pod["aligned"], pod["known"]) for pod in listed] == [
        ("bad", False, "observed"),
        ("good", True, "observed"),
        ("reserved", None, "recorded"),
    ]
    assert listed[0]["judgement"] == "misaligned"
    assert listed[0]["why"].endswith("single-numa-node allows one")
    assert listed[1]["why"] is None
    assert listed[1]["placement"] == [{"zones": ["node-1"], "amount": {"cpu": "8", "memory": "4Gi"}}]


def alone(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, which is to have its zones to itself."""
    pod["metadata"]["annotations"]["numalign.io/exclusive"] = "zone"
    return pod


def test_a_pod_that_is_to_be_alone_says_who_is_there(run: Run, with_pods: Snapshot) -> None:
    quiet = placed("quiet", 1, policy="none")
    file = with_pods(alone(placed("alone", 1)), placed("beside", 1), placed("away", 0), quiet)
    result = run("pods", "--snapshot", file, COLUMNS="200")
    listed = json.loads(run("pods", "--snapshot", file, "-o", "json").stdout)

    assert (
        "team/alone  on big  single-numa-node, exclusive  aligned\n    zone 1: 8 cpu, 4Gi memory\n    shares"
        " its zones with team/beside\n"
    ) in result.stdout
    assert [(pod["name"], pod["exclusive"], pod["sharesWith"]) for pod in listed] == [
        ("alone", "zone", ["team/beside"]),
        ("away", None, []),
        ("beside", None, []),
    ]


def test_only_those_that_are_asked_for(run: Run, with_pods: Snapshot) -> None:
    file = with_pods(*PODS, placed("other", 0, namespace="elsewhere"))

    def names(*arguments: str) -> list[str]:
        return [
            pod["name"]
            for pod in json.loads(run("pods", "--snapshot", file, "-o", "json", *arguments).stdout)
        ]

    assert names() == ["other", "bad", "good", "reserved"]
    assert names("-n", "elsewhere") == ["other"]
    assert names("-n", "team", "--misaligned") == ["bad"]
    assert names("-n", "nowhere") == []


def test_who_asks_for_nothing_or_does_not_run_is_not_listed(run: Run, with_pods: Snapshot) -> None:
    ended = placed("ended", 0, 1) | {"status": {"phase": "Succeeded", "startTime": "2026-11-20T00:00:00Z"}}
    waiting = manifest("waiting", "8", policy=SINGLE, namespace="team")

    result = run("pods", "--snapshot", with_pods(ended, waiting, placed("silent", 0, 1, policy="none")))

    assert result.stdout == "no running pod requests alignment\n"


def test_a_wish_unmet_is_told_as_one(run: Run, with_pods: Snapshot) -> None:
    result = run("pods", "--snapshot", with_pods(placed("wish", 0, 1, policy="best-effort")), COLUMNS="200")

    assert "best-effort allows this" in result.stdout


def test_an_annotation_that_makes_no_sense_is_told_and_the_others_are_judged(
    run: Run, with_pods: Snapshot
) -> None:
    broken = placed("broken", 0, 1)
    broken["metadata"]["annotations"][PLACEMENT_OBSERVED] = "{"

    result = run("pods", "--snapshot", with_pods(broken, placed("good", 1)))

    assert result.exit_code == 0
    assert "skipped: " in result.stderr
    assert "2 pods: 1 aligned, 1 not judged" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-l", "app in"], 'expected "("'),
        (["-o", "table"], "'table' is not one of"),
    ],
)
def test_what_is_asked_wrongly_is_told(
    run: Run, with_pods: Snapshot, arguments: list[str], said: str
) -> None:
    result = run("pods", *arguments, "--snapshot", with_pods(*PODS), COLUMNS="200")

    assert result.exit_code == 2
    assert said in result.output


def test_a_file_that_is_no_snapshot_is_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nothing.json"
    file.write_text("[1]")

    assert run("pods", "--snapshot", file).exit_code == 2
