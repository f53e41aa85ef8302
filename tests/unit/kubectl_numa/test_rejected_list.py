"""pods --rejected: which pods a kubelet rejected, where, when, why and whose they are."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import ITEMS, manifest, rejected

Run = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A snapshot with two rejected pods, and others that were not."""
    pods = [
        rejected("old", minutes=90),
        rejected("new", reason="OutOfcpu"),
        rejected("failed") | {"status": {"phase": "Failed", "reason": "Error"}},
        manifest("waiting", "8"),
    ]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS, *pods]}))
    return path


def test_the_last_ones_come_first(run: Run, file: Path) -> None:
    result = run("pods", "--rejected", "--snapshot", file)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "default/new of ReplicaSet/web",
        "    rejected by big 4 min ago: OutOfcpu: Resources cannot be allocated",
        "default/old of ReplicaSet/web",
        "    rejected by big 1 h ago: TopologyAffinityError: Resources cannot be",
        "    allocated",
        "2 pods: 1 OutOfcpu, 1 TopologyAffinityError",
    ]


def test_a_table_has_them_all_too(run: Run, file: Path) -> None:
    header, new, _ = run("pods", "--rejected", "--snapshot", file, "-o", "wide").stdout.splitlines()

    assert header.split() == ["NAMESPACE", "NAME", "NODE", "REJECTED", "REASON", "OWNER", "MESSAGE"]
    assert new.split()[:8] == ["default", "new", "big", "4", "min", "ago", "OutOfcpu", "ReplicaSet/web"]


def test_programs_read_the_same(run: Run, file: Path) -> None:
    new, old = json.loads(run("pods", "--rejected", "--snapshot", file, "-o", "json").stdout)

    assert (new["name"], new["node"], new["reason"]) == ("new", "big", "OutOfcpu")
    assert (old["namespace"], old["owner"]) == ("default", {"kind": "ReplicaSet", "name": "web"})
    assert new["at"] > old["at"]


def test_only_those_that_are_asked_for(run: Run, file: Path) -> None:
    result = run("pods", "--rejected", "-n", "elsewhere", "--snapshot", file)

    assert (result.exit_code, result.stdout) == (0, "no kubelet has rejected a pod that still exists\n")


@pytest.mark.parametrize("flag", ["--misaligned", "--all"])
def test_they_are_not_listed_with_running_ones(run: Run, file: Path, flag: str) -> None:
    result = run("pods", "--rejected", flag, "--snapshot", file)

    assert result.exit_code == 2
    assert "--rejected lists pods that never ran" in result.stderr


def test_a_file_without_pods_is_no_cluster_without_rejected_ones(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_text(json.dumps({"kind": "List", "items": ITEMS}))

    result = run("pods", "--rejected", "--snapshot", path)

    assert result.exit_code == 2
    assert "the snapshot contains no pods" in result.stderr
