"""One pod must be denied by numalign, the other admitted, and both are tried until they are."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubectl_numa import admission_probe
from kubectl_numa.admission_probe import EXPECTED, ProbedPod, ProbeOutcome, probe
from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.model.intent import POLICY

Answer = Callable[[str, int], ClusterError | None]

DENIED = (
    'not allowed to create pods (admission webhook "pods.validate.numalign.io" denied the request: no policy)'
)
FOREIGN = 'not allowed to create pods (admission webhook "validate.kyverno.svc" denied the request: no)'


@dataclass
class Cluster:
    """Answers by policy and how often it was asked before; notes each call."""

    answer: Answer
    calls: list[tuple[str, Any, Sequence[tuple[str, str]]]] = field(default_factory=list)

    async def create(
        self,
        path: str,
        body: Any,  # noqa: ANN401 a manifest
        query: Sequence[tuple[str, str]] = (),
        *,
        what: str,
    ) -> object:
        """Answer one call."""
        assert "namespace team" in what
        policy = body["metadata"]["annotations"][POLICY]
        before = sum(policy == each["metadata"]["annotations"][POLICY] for _, each, _ in self.calls)
        self.calls.append((path, body, query))
        if error := self.answer(policy, before):
            raise error
        return body


def working(policy: str, _before: int) -> ClusterError | None:
    return Forbidden(DENIED) if policy == "no-such-policy" else None


def asked(answer: Answer, *, patience: float = 0) -> tuple[Sequence[ProbedPod], Cluster]:
    cluster = Cluster(answer)
    return asyncio.run(probe(cluster, namespace="team", patience=patience)), cluster


def test_where_the_webhook_answers_both_pods_have_the_expected_outcome() -> None:
    pods, cluster = asked(working)
    assert [(pod.outcome, pod.passed) for pod in pods] == [
        (ProbeOutcome.DENIED, True),
        (ProbeOutcome.ADMITTED, True),
    ]
    assert pods[0].detail == "pods.validate.numalign.io"
    assert [(path, query) for path, _, query in cluster.calls] == [
        ("/api/v1/namespaces/team/pods", (("dryRun", "All"),))
    ] * len(EXPECTED)


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        (lambda _policy, _before: None, ProbeOutcome.ADMITTED, ""),
        (lambda _policy, _before: Unreachable("nobody answers"), ProbeOutcome.FAILED, "nobody answers"),
        # What another webhook denies says nothing of ours.
        (lambda _policy, _before: Forbidden(FOREIGN), ProbeOutcome.FAILED, FOREIGN),
    ],
    ids=["no webhook is asked", "nobody answers", "another webhook denies"],
)
def test_a_policy_that_does_not_exist_passes_only_where_numalign_denies_it(
    answer: Answer, outcome: ProbeOutcome, detail: str
) -> None:
    [impossible, _], _ = asked(answer)
    assert (impossible.outcome, impossible.detail, impossible.passed) == (outcome, detail, False)


def test_a_namespace_that_asks_for_more_denies_the_other_pod_too() -> None:
    [_, possible], _ = asked(lambda _policy, _before: Forbidden(DENIED))
    assert (possible.outcome, possible.passed) == (ProbeOutcome.DENIED, False)


def test_it_is_tried_again_until_the_webhook_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_probe, "INTERVAL", 0.001)
    pods, cluster = asked(lambda policy, before: working(policy, before) if before > 1 else None, patience=60)
    assert all(pod.passed for pod in pods)
    assert len(cluster.calls) == 3 * len(EXPECTED)


def test_patience_ends() -> None:
    pods, cluster = asked(lambda _policy, _before: None, patience=0.5)
    assert not all(pod.passed for pod in pods)
    assert len(cluster.calls) == len(EXPECTED)


def test_every_level_of_pod_security_takes_the_pods() -> None:
    """As https://kubernetes.io/docs/concepts/security/pod-security-standards/ has the restricted one."""
    _, cluster = asked(working)
    for _, pod, _ in cluster.calls:
        [container] = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
