"""verify: what is printed, and the exit code, where no webhook reviews pods."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from kubectl_numa.admission_probe import ProbedPod, ProbeOutcome
from kubectl_numa.commands import verify
from tests.unit.kubectl_numa.commands.test_ungate import Away, away

__all__ = ["away"]

Run = Callable[..., Result]


def test_where_no_webhook_is_asked_it_fails_and_says_what_to_check(run: Run, away: Away) -> None:
    result = run("verify", "--kubeconfig", str(away.kubeconfig))
    assert result.exit_code == verify.UNEXPECTED
    assert "FAIL  a pod with numalign.io/policy: no-such-policy is admitted, not denied" in result.stdout
    assert "check that its pods are ready" in " ".join(result.stdout.split())
    assert "ok    a pod with numalign.io/policy: best-effort is admitted" in result.stdout
    assert "numalign does not review the pods of namespace team" in result.stdout


def test_programs_get_the_same_as_a_document(run: Run, away: Away) -> None:
    result = run("verify", "--kubeconfig", str(away.kubeconfig), "-n", "other", "-o", "json")
    assert result.exit_code == verify.UNEXPECTED
    assert json.loads(result.stdout) == {
        "namespace": "other",
        "pods": [
            {"policy": "no-such-policy", "expected": "denied", "outcome": "admitted", "detail": ""},
            {"policy": "best-effort", "expected": "admitted", "outcome": "admitted", "detail": ""},
        ],
    }


def test_a_reason_of_somebody_else_is_shown_whole(
    run: Run, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **_flags: object) -> list[ProbedPod]:
        return [ProbedPod("best-effort", ProbeOutcome.ADMITTED, ProbeOutcome.FAILED, "exceeded quota: pods")]

    monkeypatch.setattr(verify, "probe", refused)
    result = run("verify", "--kubeconfig", str(away.kubeconfig))
    assert result.exit_code == verify.UNEXPECTED
    assert "exceeded quota: pods" in result.stdout


@pytest.mark.parametrize("span", ["soon", "-1", "1w"])
def test_a_timeout_that_is_no_span_is_refused(run: Run, away: Away, span: str) -> None:
    result = run("verify", "--kubeconfig", str(away.kubeconfig), f"--timeout={span}")
    assert result.exit_code == 2
    assert "a duration is a whole number of s, m, h or d" in " ".join(result.stderr.split())
