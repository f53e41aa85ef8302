"""verify: the output and the exit code where no webhook reviews pods."""

import pytest

from kubectl_numa.admission_probe import ProbedPod, ProbeOutcome
from kubectl_numa.commands import verify
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster


def test_without_a_webhook_it_fails_with_what_to_check(cli: Cli, fake: FakeCluster) -> None:
    result = cli("verify", "--kubeconfig", fake.kubeconfig)

    assert result.exit_code == verify.UNEXPECTED
    assert "FAIL  a pod with numalign.io/policy: no-such-policy is admitted, not denied" in result.stdout
    assert "check that its pods are ready" in " ".join(result.stdout.split())
    assert "ok    a pod with numalign.io/policy: best-effort is admitted" in result.stdout
    assert "numalign does not review the pods of namespace team" in result.stdout


def test_json_has_both_pods(cli: Cli, fake: FakeCluster) -> None:
    assert cli.json("verify", "--kubeconfig", fake.kubeconfig, "-n", "other") == {
        "namespace": "other",
        "pods": [
            {"policy": "no-such-policy", "expected": "denied", "outcome": "admitted", "detail": ""},
            {"policy": "best-effort", "expected": "admitted", "outcome": "admitted", "detail": ""},
        ],
    }


def test_a_reason_of_another_program_is_printed(
    cli: Cli, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **_flags: object) -> list[ProbedPod]:
        return [ProbedPod("best-effort", ProbeOutcome.ADMITTED, ProbeOutcome.FAILED, "exceeded quota: pods")]

    monkeypatch.setattr(verify, "probe", refused)
    result = cli("verify", "--kubeconfig", fake.kubeconfig)

    assert (result.exit_code, "exceeded quota: pods" in result.stdout) == (verify.UNEXPECTED, True)
