"""What reports say, in the fields and words of their definition, and within the bounds of an object."""

from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from controller.reports.policy_report import MOST_BYTES, digest_of, of_namespace, of_nodes
from numalign.cache.admission import AdmissionDecision, AdmissionState
from numalign.decision.alignment import Judgement
from numalign.kube.decode.parts import Part
from numalign.kube.pod_informer import Owner
from numalign.model.intent import Policy
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RuleResult, RunningPod
from tests.unit.controller.reports.conftest import NOW, entry, pod, report

DEFINITIONS = Path(__file__).parents[3] / "system" / "e2e" / "policyreports.yaml"
MISALIGNED = RuleResult(PodRule.ALIGNED, RuleOutcome.FAIL, "in two zones")
REFUSED = RuleResult(PodRule.ADMITTED, RuleOutcome.FAIL, "0/8 nodes can take it")
NEVER = AdmissionDecision(AdmissionState.NEVER, "0/8 nodes can take it")


def running(
    *results: RuleResult, name: str = "web-1", decision: AdmissionDecision | None = NEVER
) -> RunningPod:
    """A pod with these results."""
    owner = Owner("apps", "ReplicaSet", "web-5d", "uid-of-web-5d")
    return RunningPod(
        pod(name, owner=owner), Policy.RESTRICTED, Judgement.MISALIGNED, tuple(results), decision
    )


def body(*pods: RunningPod) -> dict[str, Any]:
    """The report of these as it is written."""
    made = of_namespace("team", pods)
    assert made is not None
    return made.written(now=NOW, owner=None)[0]


def test_a_report_says_of_each_pod_what_came_of_each_rule() -> None:
    written = body(running(MISALIGNED, REFUSED))

    assert (written["apiVersion"], written["kind"]) == ("wgpolicyk8s.io/v1alpha2", "PolicyReport")
    assert written["metadata"]["name"] == "numalign"
    assert written["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "numalign"}
    assert written["scope"] == {"apiVersion": "v1", "kind": "Namespace", "name": "team"}
    assert written["summary"] == {"error": 0, "fail": 2, "warn": 0, "skip": 0, "pass": 0}
    assert written["results"][0] == {
        "source": "numalign",
        "policy": "numalign",
        "category": "NUMA alignment",
        "rule": "aligned",
        "result": "fail",
        "severity": "medium",
        "message": "in two zones",
        "timestamp": {"seconds": int(NOW), "nanos": 0},
        "resources": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "team",
                "name": "web-1",
                "uid": "uid-of-web-1",
            }
        ],
        "properties": {"node": "n", "policy": "restricted", "owner": "ReplicaSet/web-5d"},
    }


def test_a_report_changes_with_what_is_not_pinned() -> None:
    warned = RuleResult(PodRule.ADMITTED, RuleOutcome.WARN, "cpu is not pinned")
    cpu, both = (AdmissionDecision(AdmissionState.FITS, unpinned=text) for text in ("cpu", "cpu and memory"))

    one, other = (of_namespace("team", [running(warned, decision=each)]) for each in (cpu, both))

    assert one
    assert other
    assert one.digest != other.digest


def test_nodes_stand_in_a_report_of_the_cluster() -> None:
    made = of_nodes({"a": RuleOutcome.PASS, "b": RuleOutcome.FAIL, "c": RuleOutcome.WARN})
    assert made is not None
    written, _ = made.written(now=NOW, owner=None)

    assert written["kind"] == "ClusterPolicyReport"
    assert "namespace" not in written["metadata"]
    assert "scope" not in written
    assert [(each["resources"][0]["name"], each["result"]) for each in written["results"]] == [
        ("b", "fail"),
        ("c", "warn"),
        ("a", "pass"),
    ]


def test_what_has_nothing_to_say_is_no_report() -> None:
    assert of_namespace("team", [running()]) is None
    assert of_nodes({}) is None


def test_it_goes_with_its_owner() -> None:
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}

    assert report(entry("a")).written(now=NOW, owner=owner)[0]["metadata"]["ownerReferences"] == [owner]


def test_of_too_many_results_the_worst_are_kept_and_it_says_how_many_more_there_are() -> None:
    passed = [entry(f"p{at}", RuleOutcome.PASS, "x" * 300) for at in range(5000)]
    written, left_out = report(*passed, entry("bad")).written(now=NOW, owner=None)

    assert len(orjson.dumps(written["results"])) <= MOST_BYTES + 1024
    assert 0 < left_out < 5000
    assert written["results"][0]["resources"][0]["name"] == "bad"
    assert (written["summary"]["pass"], written["summary"]["fail"]) == (5000, 1)
    assert written["results"][-1]["message"].startswith(
        f"{left_out:,} more results do not fit into this report"
    )


def test_a_long_message_is_cut() -> None:
    written, _ = report(entry("a", message="x" * 10_000)).written(now=NOW, owner=None)

    assert len(written["results"][0]["message"]) == 512


def test_a_digest_stands_for_what_is_said_whenever_that_is() -> None:
    first, later = (report(entry("a")).written(now=at, owner=None)[0] for at in (NOW, NOW + 60))

    assert first["results"] != later["results"]
    assert digest_of(Part(first)) == digest_of(Part(later)) == report(entry("a")).digest
    assert report(entry("a", message="else")).digest != report(entry("a")).digest
    assert report(entry("a", RuleOutcome.WARN)).digest != report(entry("a")).digest


def test_nodes_that_are_counted_otherwise_are_not_worth_a_write() -> None:
    counted = RuleResult(PodRule.ADMITTED, RuleOutcome.FAIL, "0/9 nodes can take it")
    digests = {made.digest for each in (REFUSED, counted) if (made := of_namespace("team", [running(each)]))}

    assert len(digests) == 1


def test_a_report_that_somebody_changed_has_no_digest() -> None:
    written = body(running(MISALIGNED))
    forged = {**written, "summary": {**written["summary"], "fail": 0}}

    assert digest_of(Part(forged)) == ""


@pytest.mark.parametrize("annotation", [None, "", "x", "x y z", 7])
def test_an_annotation_that_makes_no_sense_is_no_digest(annotation: object) -> None:
    written = body(running(MISALIGNED))
    written["metadata"]["annotations"] = {"numalign.io/report": annotation}

    assert digest_of(Part(written)) == ""


# What the definition lets through.


@cache
def schema(kind: str) -> dict[str, Any]:
    """The schema of a kind in the definitions."""
    [definition] = [
        each for each in yaml.safe_load_all(DEFINITIONS.read_text()) if each["spec"]["names"]["kind"] == kind
    ]
    found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def strangers(value: object, allowed: dict[str, Any], where: str = "") -> list[str]:
    """Fields and words of a value that a schema does not know."""
    if "enum" in allowed and value not in allowed["enum"]:
        return [f"{where}: {value}"]
    if isinstance(value, list):
        return [each for item in value for each in strangers(item, allowed["items"], where)]
    if isinstance(value, dict) and "properties" in allowed and where != ".metadata":
        fields = allowed["properties"]
        return [
            each
            for key in value
            for each in (
                strangers(value[key], fields[key], f"{where}.{key}") if key in fields else [f"{where}.{key}"]
            )
        ]
    return []


@pytest.mark.parametrize("rule", PodRule)
@pytest.mark.parametrize("outcome", RuleOutcome)
def test_every_field_and_word_stands_in_the_definition(rule: PodRule, outcome: RuleOutcome) -> None:
    written = body(running(RuleResult(rule, outcome, "why")))

    assert strangers(written, schema("PolicyReport")) == []


def test_so_does_all_that_is_said_of_nodes_and_of_what_is_left_out() -> None:
    made = of_nodes({f"node-{at}": RuleOutcome.FAIL for at in range(6000)})
    assert made is not None
    written, left_out = made.written(now=NOW, owner=None)

    assert left_out
    assert strangers(written, schema("ClusterPolicyReport")) == []


def test_a_definition_that_lets_everything_through_says_nothing() -> None:
    assert strangers({"results": [{"result": "maybe", "x": 1}]}, schema("PolicyReport")) == [
        ".results.result: maybe",
        ".results.x",
    ]
