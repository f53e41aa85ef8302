"""pods --rejected: which pods a kubelet rejected, where, when and why."""

from pathlib import Path

import pytest

from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest, rejected


@pytest.fixture
def path(cli: Cli) -> Path:
    """A snapshot with two rejected pods, and others that were not."""
    failed = rejected("failed") | {"status": {"phase": "Failed", "reason": "Error"}}
    return cli.cluster(rejected("old", minutes=90), rejected("new", reason="OutOfcpu"), failed, manifest("b"))


def test_latest_rejections_come_first(cli: Cli, path: Path) -> None:
    words = ("pods", "--rejected", "--snapshot", path)
    new, old = cli.json(*words)
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
    assert (new["name"], new["node"], new["reason"]) == ("new", "big", "OutOfcpu")
    assert (old["namespace"], old["owner"]) == ("default", {"kind": "ReplicaSet", "name": "web"})
    assert new["at"] > old["at"]
