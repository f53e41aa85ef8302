"""What comes of each rule for pods that run."""

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry

from numalign.cache.admission import AdmissionDecision, AdmissionState
from numalign.cache.pod_question import PodQuestion
from numalign.decision.alignment import ALIGNED, Alignment, Judgement
from numalign.decision.pinning import PartialAlignment
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.kinds import Object
from numalign.kube.pod_informer import PodInfo, PodInformer
from numalign.model.intent import NamespaceRules, Policy
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RuleResult, RunningPodJudge, runs
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table

ADMITTED = AdmissionDecision(AdmissionState.FITS)
MISALIGNED = Alignment(Judgement.MISALIGNED)
NOT_CLEAR = Alignment(Judgement.NOT_CLEAR)
STRICT = NamespaceRules(enforce=Policy.RESTRICTED, warn=Policy.RESTRICTED, audit=Policy.SINGLE_NUMA_NODE)


def pod(
    policy: str | None = None, *, name: str = "p", cpu: str = "2", resources: str = "", **spec: object
) -> PodInfo:
    annotations = {"numalign.io/policy": policy} if policy else {}
    annotations |= {"numalign.io/resources": resources} if resources else {}
    container = {"name": "main", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
    raw: Object = {
        "metadata": {"name": name, "namespace": "team", "uid": name, "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [container], **spec},
        "status": {"phase": "Running"},
    }
    listener = Mock()
    informer = PodInformer(
        listener, READER, recreated=RECREATED, log=RecordedLog().log, registry=CollectorRegistry()
    )
    informer.put(raw)
    info: PodInfo = listener.update_pod.call_args.args[0]
    return info


READER, RECREATED = PodReader(), RecreatedScheduling()


def judge(decision: AdmissionDecision = ADMITTED, *, rules: NamespaceRules | None = None) -> RunningPodJudge:
    policy = EffectivePolicy(rules={"team": rules} if rules else {})
    return RunningPodJudge(READER, policy, lambda _pod: decision)


def outcomes(
    one: PodInfo,
    alignment: Alignment | None = None,
    decision: AdmissionDecision = ADMITTED,
    *,
    rules: NamespaceRules | None = None,
) -> Mapping[str, str]:
    results = judge(decision, rules=rules).judge(one, alignment).results
    return {str(result.rule): str(result.outcome) for result in results}


@pytest.mark.parametrize(("policy", "alignment", "outcome"), table([
    ("aligned", "restricted", ALIGNED, "pass"),
    ("misaligned", "restricted", MISALIGNED, "fail"),
    ("a wish unmet", "best-effort", MISALIGNED, "warn"),
    ("not clear", "restricted", NOT_CLEAR, "skip"),
    ("nobody looked", "restricted", None, "skip"),
]))  # fmt: skip
def test_how_a_pod_sits(policy: str, alignment: Alignment | None, outcome: str) -> None:
    assert outcomes(pod(policy), alignment)["aligned"] == outcome


def test_partial_alignment_passes_with_a_message() -> None:
    partial = PartialAlignment(Policy.RESTRICTED, ("x/gpu",), ("cpu",), "")
    running = judge().judge(pod("restricted"), replace(ALIGNED, partial=partial))
    assert running.partial is partial
    assert running.result(PodRule.ALIGNED) == RuleResult(PodRule.ALIGNED, RuleOutcome.PASS, str(partial))


def test_every_namespace_level_is_a_rule() -> None:
    below = {"level-enforce": "fail", "level-warn": "warn", "level-audit": "warn", "admitted-today": "pass"}
    above = {"aligned": "pass", **below, "level-enforce": "pass", "level-warn": "pass"}
    assert outcomes(pod(), rules=STRICT) == below
    assert outcomes(pod("restricted"), ALIGNED, rules=STRICT) == above


def test_omitted_resources_are_below_the_levels() -> None:
    running = judge(rules=STRICT).judge(pod("single-numa-node", resources="memory"), None)
    assert running.below == ("enforce", "warn", "audit")
    message = "this namespace expects NUMA alignment restricted; numalign.io/resources lacks cpu"
    assert running.result(PodRule.ENFORCE) == RuleResult(PodRule.ENFORCE, RuleOutcome.FAIL, message)


@pytest.mark.parametrize(("decision", "outcome", "message"), table([
    ("admitted", ADMITTED, "pass", ""),
    ("refused", AdmissionDecision(AdmissionState.NEVER, "too large"), "fail", "too large"),
    ("not pinned", AdmissionDecision(AdmissionState.FITS, unpinned="cpu"), "warn", "cpu"),
    ("waived", AdmissionDecision(AdmissionState.NEVER, waived="too large. Ask."), "warn", "too large"),
    ("warned",
        AdmissionDecision(AdmissionState.FITS, warnings=(
            "this namespace expects NUMA alignment restricted; the pod requests nothing", "beware")),
        "warn", "beware"),
]))  # fmt: skip
def test_admission_today(decision: AdmissionDecision, outcome: str, message: str) -> None:
    running = judge(decision, rules=STRICT).judge(pod(), None)
    admitted = running.result(PodRule.ADMITTED)
    assert admitted is not None
    assert (admitted.outcome, admitted.message) == (outcome, message)


def test_pod_without_request_has_no_results() -> None:
    running = judge().judge(pod(), ALIGNED)
    assert (running.results, running.outcome, running.judgement) == ((), "pass", "not-asked")


def test_unreadable_pod_is_an_error_with_its_mistakes() -> None:
    running = judge().judge(pod("tight"), None)
    assert [(result.rule, result.outcome) for result in running.results] == [("admitted-today", "error")]
    assert '"tight" is not a known value' in running.results[0].message


def test_admission_is_decided_once_for_equal_pods() -> None:
    decide = Mock(return_value=ADMITTED)
    judged = RunningPodJudge(READER, EffectivePolicy(rules={"team": STRICT}), decide)
    for name in ("a", "b", "c"):
        judged.judge(pod("restricted", name=name), ALIGNED)
    judged.judge(pod("restricted", cpu="4"), ALIGNED)
    judged.judge(pod("restricted", nodeSelector={"a": "b"}), ALIGNED)
    assert decide.call_count == 3


def test_admission_ignores_the_node_of_the_pod() -> None:
    decide = Mock(return_value=ADMITTED)
    RunningPodJudge(READER, EffectivePolicy(), decide).judge(pod("restricted", nodeSelector={"a": "b"}), None)
    judged: PodQuestion = decide.call_args.args[0]
    assert judged.pin is None
    assert [str(requirement) for requirement in judged.constraints.selector] == ["a in (b)"]


@pytest.mark.parametrize(("changed", "running"), table([
    ("on its node", {}, True),
    ("waiting", {"node": ""}, False),
    ("on its way out", {"leaving": True}, False),
    ("ended", {"phase": "Succeeded"}, False),
]))  # fmt: skip
def test_which_pods_run(changed: dict[str, object], running: bool) -> None:  # noqa: FBT001  a value of a table
    assert runs(replace(pod(), **changed)) is running  # type: ignore[arg-type]
