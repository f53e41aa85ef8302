"""verify: one pod must be denied by numalign and another admitted; both are retried until they are."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubectl_numa import admission_probe
from kubectl_numa.admission_probe import EXPECTED, ProbedPod, ProbeOutcome, probe
from kubectl_numa.commands import verify
from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.model.intent import POLICY
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.worlds.notation import table
from tests.worlds.objects import Json

Answer = Callable[[str, int], ClusterError | None]

DENIED = (
    'not allowed to create pods (admission webhook "pods.validate.numalign.io" denied the request: no policy)'
)
FOREIGN = 'not allowed to create pods (admission webhook "validate.kyverno.svc" denied the request: no)'


@dataclass
class AnsweringApi:
    """Answers by policy and the number of earlier calls with it, and records calls."""

    answer: Answer
    calls: list[tuple[str, Json, Any]] = field(default_factory=list)

    async def create(self, path: str, body: Any, query: Any = (), *, what: str) -> object:  # noqa: ANN401  JSON
        assert "namespace team" in what
        policies = [
            each["metadata"]["annotations"][POLICY] for each in (*(pod for _, pod, _ in self.calls), body)
        ]
        self.calls.append((path, body, query))
        if error := self.answer(policies[-1], policies.count(policies[-1]) - 1):
            raise error
        return body


def working(policy: str, _before: int) -> ClusterError | None:
    return Forbidden(DENIED) if policy == "no-such-policy" else None


def probed(answer: Answer, *, patience: float = 0) -> tuple[Sequence[ProbedPod], AnsweringApi]:
    api = AnsweringApi(answer)
    return asyncio.run(probe(api, namespace="team", patience=patience)), api


def test_with_the_webhook_both_outcomes_are_expected() -> None:
    pods, api = probed(working)

    assert [(pod.outcome, pod.passed) for pod in pods] == [
        (ProbeOutcome.DENIED, True),
        (ProbeOutcome.ADMITTED, True),
    ]
    assert [(path, query) for path, _, query in api.calls] == [
        ("/api/v1/namespaces/team/pods", (("dryRun", "All"),))
    ] * len(EXPECTED)


PROBED = [
    ("no webhook", None, ProbeOutcome.ADMITTED, "", [False, True]),
    ("all denied", Forbidden(DENIED), ProbeOutcome.DENIED, "pods.validate.numalign.io", [True, False]),
    ("no answer", Unreachable("no answer"), ProbeOutcome.FAILED, "no answer", [False, False]),
    # What another webhook denies shows nothing about ours.
    ("another webhook denies", Forbidden(FOREIGN), ProbeOutcome.FAILED, FOREIGN, [False, False]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "outcome", "detail", "passed"), table(PROBED))
def test_only_a_denial_of_ours_is_a_denial(
    error: ClusterError | None, outcome: ProbeOutcome, detail: str, passed: list[bool]
) -> None:
    pods, api = probed(lambda _policy, _before: error)

    assert [(pod.outcome, pod.detail) for pod in pods] == [(outcome, detail)] * 2
    assert [pod.passed for pod in pods] == passed
    assert len(api.calls) == len(EXPECTED)


def test_it_is_retried_until_the_webhook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_probe, "INTERVAL", 0.001)
    pods, api = probed(lambda policy, before: working(policy, before) if before > 1 else None, patience=60)

    assert all(pod.passed for pod in pods)
    assert len(api.calls) == 3 * len(EXPECTED)


def test_retries_end_with_patience() -> None:
    pods, api = probed(lambda _policy, _before: None, patience=0.5)

    assert (all(pod.passed for pod in pods), len(api.calls)) == (False, len(EXPECTED))


def test_pods_meet_the_restricted_pod_security_level() -> None:
    """As https://kubernetes.io/docs/concepts/security/pod-security-standards/ defines it."""
    for _, pod, _ in probed(working)[1].calls:
        [container] = pod["spec"]["containers"]
        profile, dropped = {"type": "RuntimeDefault"}, {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": profile}
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": dropped}


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
