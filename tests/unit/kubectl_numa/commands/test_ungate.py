"""ungate: our gate is removed from pods, unless a controller runs that does it."""

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest

from kubectl_numa.commands import ungate
from numalign.kube import gates
from numalign.kube.gates import LEASE
from numalign.model.intent import PLACEMENT_GATE
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import labelled, waiting
from tests.worlds.notation import table
from tests.worlds.objects import Json

OTHER = "kueue.x-k8s.io/admission"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"


def gated(name: str, *gates: str, namespace: str = "team") -> Json:
    """A pod with these scheduling gates, or ours."""
    named = [{"name": gate} for gate in gates or (PLACEMENT_GATE,)]
    return waiting(name, namespace=namespace, schedulingGates=named)


def lease(age: float, *, holder: str = "a") -> Json:
    """The controller's lease, renewed so many seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=age)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": "numalign-system"},
        "spec": {"holderIdentity": holder, "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    }


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is not watched for long."""
    monkeypatch.setattr(ungate, "WATCHED_SECONDS", 0.0)


def test_pods_of_the_namespace_are_ungated(cli: Cli, fake: FakeCluster) -> None:
    both, theirs = gated("both", PLACEMENT_GATE, OTHER), gated("theirs", OTHER)
    fake.put(gated("web"), both, theirs, gated("far", namespace="other"))

    assert cli.text("ungate", "--kubeconfig", fake.kubeconfig) == (
        f"team/both: lifted; still gated by {OTHER}\nteam/web: lifted\n2 of 2 gates lifted\n"
    )
    assert [fake.gates(name) for name in ("web", "both", "theirs")] == [[], [OTHER], [OTHER]]
    assert fake.gates("far", "other") == [PLACEMENT_GATE]


def test_all_namespaces_are_ungated_also_beside_one(cli: Cli, fake: FakeCluster) -> None:
    fake.put(gated("web"), gated("far", namespace="other"))
    pods = cli.json("ungate", "-A", "-n", "team", "--kubeconfig", fake.kubeconfig)

    names = sorted((pod["namespace"], pod["name"], pod["error"]) for pod in pods)
    assert names == [("other", "far", None), ("team", "web", None)]
    assert fake.gates("far", "other") == []


def test_a_dry_run_writes_nothing(cli: Cli, fake: FakeCluster) -> None:
    fake.put(gated("web"), lease(1))

    assert "team/web: would be lifted" in cli.text("ungate", "--dry-run", "--kubeconfig", fake.kubeconfig)
    assert fake.gates("web") == [PLACEMENT_GATE]


LEASED = [
    # facts of the lease, flags, and whether pods are ungated
    ("renewed four minutes ago",  {"age": 240},                       [],          False),
    ("renewed in the future",     {"age": -60},                       [],          False),
    ("renewed six minutes ago",   {"age": 360},                       [],          True),
    ("released",                  {"age": 2, "holder": ""},           [],          True),
    ("renewed, with force",       {"age": 2},                         ["--force"], True),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "flags", "ungated"), table(LEASED))
def test_a_running_controller_forbids_it(
    cli: Cli, fake: FakeCluster, facts: dict[str, Any], flags: list[str], *, ungated: bool
) -> None:
    fake.put(gated("web"), lease(**facts))
    result = cli("ungate", *flags, "--kubeconfig", fake.kubeconfig)

    assert (result.exit_code, fake.gates("web")) == ((0, []) if ungated else (2, [PLACEMENT_GATE]))
    assert ("--force" in result.stderr) is not ungated


def test_a_lease_renewed_by_a_slow_clock_forbids_it(
    cli: Cli, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.put(gated("web"))
    moments = iter(datetime.now(UTC) - timedelta(seconds=seconds) for seconds in (3600, 3598))

    async def renewed(*_: object, **__: object) -> datetime:
        return next(moments)

    monkeypatch.setattr(gates, "renewed", renewed)
    result = cli("ungate", "--kubeconfig", fake.kubeconfig)

    assert (result.exit_code, fake.gates("web")) == (2, [PLACEMENT_GATE])
    assert "--force" in result.stderr


def test_an_unreadable_lease_forbids_it(cli: Cli, fake: FakeCluster) -> None:
    fake.put(gated("web"))
    fake.api.failures[f"{LEASES}/{LEASE}"] = HTTPStatus.FORBIDDEN
    result = cli("ungate", "--kubeconfig", fake.kubeconfig)

    assert (result.exit_code, fake.gates("web")) == (2, [PLACEMENT_GATE])
    assert "cannot tell whether a controller is running" in result.stderr


def test_a_failed_write_stops_no_other(cli: Cli, fake: FakeCluster) -> None:
    fake.put(gated("bad"), gated("good"))
    fake.api.failures["PATCH", "/api/v1/namespaces/team/pods/bad"] = HTTPStatus.FORBIDDEN
    result = cli("ungate", "--kubeconfig", fake.kubeconfig)

    assert (result.exit_code, fake.gates("good"), fake.gates("bad")) == (1, [], [PLACEMENT_GATE])
    assert "team/bad: not allowed to patch" in result.stderr
    assert "1 of 2 gates lifted, 1 failed" in result.stdout


def test_pods_are_selected_by_label(cli: Cli, fake: FakeCluster) -> None:
    fake.put(labelled(gated("a"), app="web"), labelled(gated("b"), app="other"))
    words = ("ungate", "-n", "team", "-l", "app=web", "--kubeconfig", fake.kubeconfig)

    assert cli.text(*words, "-o", "name") == "pod/a\n"
    assert fake.gates("b") == [PLACEMENT_GATE]
    assert cli.text(*words) == "no gated pods\n"
