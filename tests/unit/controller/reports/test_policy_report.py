"""The content of reports: fields and values of their definition, within the limits of an object."""

from dataclasses import replace
from typing import Any

import orjson

from controller.reports.policy_report import MOST_BYTES, PolicyReport, digest_of, of_namespace, of_nodes
from numalign.cache.admission import AdmissionDecision, AdmissionState
from numalign.decision.alignment import Judgement
from numalign.kube.decode.parts import Part
from numalign.model.intent import Policy
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RuleResult, RunningPod
from tests.unit.controller import pods
from tests.unit.controller.reports.conftest import NOW, entry, report

Owner = dict[str, Any] | None

MISALIGNED = RuleResult(PodRule.ALIGNED, RuleOutcome.FAIL, "in two zones")
REFUSED = RuleResult(PodRule.ADMITTED, RuleOutcome.FAIL, "0/8 nodes can take it")
NEVER = AdmissionDecision(AdmissionState.NEVER, "0/8 nodes can take it")


def running(*results: RuleResult, decision: AdmissionDecision | None = NEVER) -> RunningPod:
    return RunningPod(
        pods.running("web-5d"), Policy.RESTRICTED, Judgement.MISALIGNED, tuple(results), decision
    )


def body(*running_pods: RunningPod) -> dict[str, Any]:
    return written(of_namespace("team", running_pods))[0]


def written(made: PolicyReport | None, owner: Owner = None) -> tuple[dict[str, Any], int]:
    """The object, and how many results are left out."""
    assert made
    return made.written(now=NOW, owner=owner)


def test_report_has_a_result_for_each_pod_and_rule() -> None:
    written = body(running(MISALIGNED, REFUSED))

    assert (written["apiVersion"], written["kind"]) == ("wgpolicyk8s.io/v1alpha2", "PolicyReport")
    assert written["metadata"]["name"] == "numalign"
    assert written["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "numalign"}
    assert written["scope"] == {"apiVersion": "v1", "kind": "Namespace", "name": "team"}
    assert written["summary"] == {"error": 0, "fail": 2, "warn": 0, "skip": 0, "pass": 0}
    names = {"namespace": "team", "name": "web-5d", "uid": "uid-web-5d"}
    assert written["results"][0] == {
        "source": "numalign",
        "policy": "numalign",
        "category": "NUMA alignment",
        "rule": "aligned",
        "result": "fail",
        "severity": "medium",
        "message": "in two zones",
        "timestamp": {"seconds": int(NOW), "nanos": 0},
        "resources": [{"apiVersion": "v1", "kind": "Pod", **names}],
        "properties": {"node": "n", "policy": "restricted", "owner": "ReplicaSet/web-1"},
    }


def test_nodes_are_in_a_report_of_the_cluster() -> None:
    made, _ = written(of_nodes({"a": RuleOutcome.PASS, "b": RuleOutcome.FAIL, "c": RuleOutcome.WARN}))

    assert made["kind"] == "ClusterPolicyReport"
    assert "namespace" not in made["metadata"]
    assert "scope" not in made
    results = [(each["resources"][0]["name"], each["result"]) for each in made["results"]]
    assert results == [("b", "fail"), ("c", "warn"), ("a", "pass")]


def test_worst_of_too_many_results_are_reported() -> None:
    passed = [entry(f"p{at}", RuleOutcome.PASS, "x" * 300) for at in range(5000)]
    made, left_out = written(report(*passed, entry("bad", message="y" * 10_000)))

    assert len(orjson.dumps(made["results"])) <= MOST_BYTES + 1024
    assert 0 < left_out < 5000
    assert len(made["results"][0]["message"]) == 512
    assert made["results"][0]["resources"][0]["name"] == "bad"
    assert (made["summary"]["pass"], made["summary"]["fail"]) == (5000, 1)
    assert made["results"][-1]["message"].startswith(f"{left_out:,} more results do not fit into this report")


def digest(result: RuleResult, unpinned: str = "") -> str:
    made = of_namespace("team", [running(result, decision=replace(NEVER, unpinned=unpinned))])
    assert made
    return made.digest


def test_digest_is_independent_of_time_and_counts_of_nodes() -> None:
    first, later = (report(entry("a")).written(now=at, owner=None)[0] for at in (NOW, NOW + 60))
    assert first["results"] != later["results"]
    assert digest_of(Part(first)) == digest_of(Part(later)) == report(entry("a")).digest

    assert digest(REFUSED) == digest(replace(REFUSED, message="0/9 nodes"))
    assert digest(REFUSED, "cpu") != digest(REFUSED, "cpu and memory")
    assert digest(MISALIGNED) != digest(replace(MISALIGNED, message="else"))
    assert digest(MISALIGNED) != digest(replace(MISALIGNED, outcome=RuleOutcome.WARN))


def test_empty_edited_or_odd_report_has_no_digest() -> None:
    assert of_namespace("team", [running()]) is None
    assert of_nodes({}) is None
    made = body(running(MISALIGNED))
    assert digest_of(Part({**made, "summary": {**made["summary"], "fail": 0}})) == ""
    for annotation in (None, "x", "x y z", 7):
        made["metadata"]["annotations"] = {"numalign.io/report": annotation}
        assert digest_of(Part(made)) == ""
