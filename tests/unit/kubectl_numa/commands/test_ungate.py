"""ungate: our gate is lifted of those that wait, and only where no controller does it."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kubectl_numa.commands import ungate
from numalign.kube import gates
from numalign.kube.gates import LEASE
from numalign.model.intent import PLACEMENT_GATE
from tests.worlds.notation import table
from tools.clusters.fake_api import FakeApi

Run = Callable[..., Result]
Raw = dict[str, Any]

OTHER = "kueue.x-k8s.io/admission"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"


def pod(name: str, *gates: str, namespace: str = "team") -> Raw:
    """A pod behind gates."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates], "containers": []},
        "status": {"phase": "Pending"},
    }


def lease(age: float, *, holder: str = "a") -> Raw:
    """The controller's lease, renewed so many seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=age)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": "numalign-system"},
        "spec": {"holderIdentity": holder, "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
    }


@dataclass
class Away:
    """A fake API server on a loop of its own, for a program that has one itself."""

    folder: Path
    api: FakeApi = field(default_factory=FakeApi)

    def __post_init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.kubeconfig = self.folder / "kubeconfig"

    def do(self, what: Callable[[], object]) -> Any:  # noqa: ANN401  whatever it gives
        """Do something where it runs."""

        async def done() -> object:
            return what()

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(10)

    def put(self, *objects: Raw) -> None:
        """These are there."""
        for each in objects:
            self.do(lambda each=each: self.api.put(each))  # type: ignore[misc]

    def gates(self, name: str, namespace: str = "team") -> list[str]:
        """What a pod waits behind."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return [gate["name"] for gate in self.do(lambda: self.api.get(path))["spec"]["schedulingGates"]]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lease is watched for long."""
    monkeypatch.setattr(ungate, "WATCHED_SECONDS", 0.0)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    made = Away(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(made.loop.run_forever)
        asyncio.run_coroutine_threadsafe(made.api.start(), made.loop).result(10)
        made.api.kubeconfig(made.kubeconfig, namespace="team")
        yield made
        asyncio.run_coroutine_threadsafe(made.api.stop(), made.loop).result(10)
        made.loop.call_soon_threadsafe(made.loop.stop)
    made.loop.close()


def test_who_waits_in_the_namespace_is_let_go_and_others_wait_on(run: Run, away: Away) -> None:
    away.put(
        pod("web", PLACEMENT_GATE),
        pod("both", PLACEMENT_GATE, OTHER),
        pod("theirs", OTHER),
        pod("elsewhere", PLACEMENT_GATE, namespace="other"),
    )
    result = run("ungate", "--kubeconfig", away.kubeconfig)

    assert result.exit_code == 0, result.output
    assert result.stdout == (
        f"team/both: lifted; still gated by {OTHER}\nteam/web: lifted\n2 of 2 gates lifted\n"
    )
    assert (away.gates("web"), away.gates("both"), away.gates("theirs")) == ([], [OTHER], [OTHER])
    assert away.gates("elsewhere", "other") == [PLACEMENT_GATE]


def test_in_all_namespaces_for_programs(run: Run, away: Away) -> None:
    away.put(pod("web", PLACEMENT_GATE), pod("far", PLACEMENT_GATE, namespace="other"))
    result = run("ungate", "-A", "--kubeconfig", away.kubeconfig, "-o", "json")

    told = sorted(json.loads(result.stdout), key=lambda each: each["name"])
    assert [(each["namespace"], each["name"], each["error"]) for each in told] == [
        ("other", "far", None),
        ("team", "web", None),
    ]
    assert away.gates("far", "other") == []


def test_a_dry_run_writes_nothing(run: Run, away: Away) -> None:
    away.put(pod("web", PLACEMENT_GATE), lease(1))
    result = run("ungate", "--dry-run", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, away.gates("web")) == (0, [PLACEMENT_GATE])
    assert "team/web: would be lifted" in result.stdout


LEADERS = [
    # what it shows                          its age  holder  renewed at   whether it is tried
    ("one that has just renewed",            2,       "a",    None,        False),
    ("one that is silent for four minutes",  240,     "a",    None,        False),
    ("one that is ahead of our clock",       -60,     "a",    None,        False),
    ("one that is silent for six minutes",   360,     "a",    None,        True),
    ("one that gave it up",                  2,       "",     None,        True),
    ("one that says nonsense",               2,       "a",    "yesterday", True),
]  # fmt: skip


@pytest.mark.parametrize(("age", "holder", "at", "tried"), table(LEADERS))
def test_nothing_is_done_while_there_is_a_controller(  # noqa: PLR0913  a table
    run: Run, away: Away, age: float, holder: str, at: str | None, *, tried: bool
) -> None:
    made = lease(age, holder=holder)
    made["spec"] |= {"renewTime": at} if at else {}
    away.put(pod("web", PLACEMENT_GATE), made)
    result = run("ungate", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, away.gates("web")) == ((0, []) if tried else (2, [PLACEMENT_GATE]))
    assert ("--force" in result.stderr) is not tried


def test_a_controller_whose_clock_is_far_behind_is_seen_to_renew_its_lease(
    run: Run, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    away.put(pod("web", PLACEMENT_GATE))
    moments = iter(datetime.now(UTC) - timedelta(seconds=seconds) for seconds in (3600, 3598))

    async def renewed(*_: object, **__: object) -> datetime:
        return next(moments)

    monkeypatch.setattr(gates, "renewed", renewed)
    result = run("ungate", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, away.gates("web")) == (2, [PLACEMENT_GATE])
    assert "--force" in result.stderr


def test_by_force_it_is_done_all_the_same(run: Run, away: Away) -> None:
    away.put(pod("web", PLACEMENT_GATE), lease(1))

    assert run("ungate", "--force", "--kubeconfig", away.kubeconfig).exit_code == 0
    assert away.gates("web") == []


def test_one_that_cannot_be_written_stops_no_other(run: Run, away: Away) -> None:
    away.put(pod("bad", PLACEMENT_GATE), pod("good", PLACEMENT_GATE))
    away.do(
        lambda: away.api.failures.update(
            {("PATCH", "/api/v1/namespaces/team/pods/bad"): HTTPStatus.FORBIDDEN}
        )
    )
    result = run("ungate", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, away.gates("good"), away.gates("bad")) == (1, [], [PLACEMENT_GATE])
    assert "team/bad: not allowed to patch" in result.stderr
    assert "1 of 2 gates lifted, 1 failed" in result.stdout


def test_who_may_not_see_the_lease_has_to_force_it(run: Run, away: Away) -> None:
    away.put(pod("web", PLACEMENT_GATE))
    away.do(lambda: away.api.failures.update({f"{LEASES}/{LEASE}": HTTPStatus.FORBIDDEN}))
    result = run("ungate", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, away.gates("web")) == (2, [PLACEMENT_GATE])
    assert "cannot tell whether a controller is running" in result.stderr


def test_nobody_waits(run: Run, away: Away) -> None:
    result = run("ungate", "-A", "--kubeconfig", away.kubeconfig)

    assert (result.exit_code, result.stdout) == (0, "no gated pods\n")


def test_all_namespaces_count_before_one(run: Run, away: Away) -> None:
    away.put(pod("far", PLACEMENT_GATE, namespace="other"))

    result = run("ungate", "-A", "-n", "team", "--kubeconfig", away.kubeconfig)

    assert result.exit_code == 0, result.output
    assert away.gates("far", "other") == []


def test_those_with_the_labels_are_let_go_and_named(run: Run, away: Away) -> None:
    for name, app in (("a", "web"), ("b", "other")):
        raw = pod(name, PLACEMENT_GATE)
        raw["metadata"]["labels"] = {"app": app}
        away.put(raw)

    result = run("ungate", "-n", "team", "-l", "app=web", "--kubeconfig", away.kubeconfig, "-o", "name")

    assert (result.exit_code, result.stdout) == (0, "pod/a\n")
    assert away.gates("b") == [PLACEMENT_GATE]
