"""How much work a pod on a node is, estimated before it is done."""

import pytest

from numalign.decision import wording
from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.verdict import Cause, Refuser
from numalign.kubelet import work_limit
from numalign.kubelet.admission_errors import RejectionReason
from numalign.kubelet.admit import admit, min_widths
from numalign.kubelet.work_limit import LIMIT_AT_ONCE, Work
from numalign.model.node import Node
from numalign.model.options import DEFAULTS
from tests.worlds.notation import GPU, asks, machine, means, node, options, table

ZONE = "cpu=16 mem=64Gi huge=4Gi gpu=4 nic=4"

PLAIN = "cpu=1 mem=1Gi gpu=1"


def of_zones(count: int, policy: str = "restricted", scope: str = "container", **facts: object) -> Node:
    return node(*[ZONE] * count, policy=policy, scope=scope, **facts)  # type: ignore[arg-type]


TWICE = f"{PLAIN} | {PLAIN}"
NAMES = "cpu=1 mem=1Gi huge=1Gi"

ESTIMATES = [
    # what it shows                       policy         scope        the pod  the work
    ("a list for each resource",          "restricted",  "container", PLAIN, Work(1, 4, 0, 1)),
    ("for each container",                "restricted",  "container", TWICE, Work(2, 8, 0, 4)),
    ("for the whole pod",                 "restricted",  "pod",       TWICE, Work(2, 8, 0, 6)),
    ("memory counts by every name",       "restricted",  "container", NAMES, Work(1, 5, 0, 2)),
    ("best effort merges all of them",    "best-effort", "container", PLAIN, Work(1, 4, 2, 1)),
    ("none makes lists for memory alone", "none",        "container", PLAIN, Work(1, 2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "scope", "pod", "expected"), table(ESTIMATES))
def test_work_of_a_pod_is_estimated(policy: str, scope: str, pod: str, expected: Work) -> None:
    assert work_limit.estimate(of_zones(2, policy, scope), asks(pod)) == expected


SCORED = options(strategy="most-allocated")

CHOICES = [
    # what it shows                            zones  policy     the pod  the units
    ("preferred equals of each resource",      2, "restricted",  PLAIN, 3 * 20 * 2),
    ("what resources prefer differently, too", 2, "best-effort", PLAIN, 3 * (20 * 2 + 2 * 3**3)),
    ("nothing is chosen by a kubelet of none", 2, "none",        PLAIN, 0),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "policy", "pod", "units"), table(CHOICES))
def test_work_of_scores_is_estimated(zones: int, policy: str, pod: str, units: int) -> None:
    plain, scored = (
        work_limit.estimate(of_zones(zones, policy, options=chosen), asks(pod))
        for chosen in (DEFAULTS, SCORED)
    )
    assert (scored.choices, scored) == (units, plain._replace(choices=units))


def test_work_counts_devices_between_zones() -> None:
    zones = ["cpu=0-3", "cpu=4-7"]
    plain, wide = (
        machine(*zones, devices=f"gpu={places}", policy="restricted") for places in ("0,1", "0,1,01")
    )
    assert [work_limit.estimate(each, asks("gpu=1")).lists for each in (plain, wide)] == [1, 9]


def many(count: int, each: str = PLAIN) -> str:
    return " | ".join([each] * count)


SCORING = of_zones(8, "best-effort", options=SCORED)

NOT_ANSWERED = [
    ("dozens of containers at best",    of_zones(16, "best-effort"), many(60)),
    ("one container on eighteen zones", of_zones(18),                PLAIN),
    ("choices by scores at best",       SCORING,                     many(60, "cpu=1 mem=1Gi")),
    ("memory under none",               of_zones(34, "none"),        PLAIN),
    ("ten thousands of containers",     of_zones(2, "none"),         many(20_000, "example.com/odd=1")),
]  # fmt: skip
*QUICK, LONG = table(NOT_ANSWERED)


@pytest.mark.parametrize(
    ("host", "pod"), [*QUICK, pytest.param(*LONG.values, id=LONG.id, marks=pytest.mark.full)]
)
def test_pod_beyond_the_work_limit_is_not_answered(host: Node, pod: str) -> None:
    verdict = evaluate(host, asks(pod), means("none"))
    assert (verdict.admitted, verdict.answered, verdict.refused, verdict.permanent) == (False,) * 4
    assert verdict.refusal
    assert (verdict.refusal.refuser, verdict.refusal.cause) == (Refuser.NOBODY, Cause.NOT_ANSWERED)
    assert wording.of_node(verdict) == "has too many NUMA zones to evaluate in time"


def test_refusal_that_needs_no_work_is_given() -> None:
    vast, many_containers = of_zones(64, "none"), asks(many(200))
    assert evaluate(vast, many_containers, means("restricted")).permanent
    assert evaluate(of_zones(64), asks("cpu=9999 mem=1Gi"), means("restricted")).permanent


def test_unanswered_pod_changes_nothing() -> None:
    admission = admit(of_zones(64), asks(PLAIN))
    assert admission.refusal
    assert admission.refusal.reason is RejectionReason.NOT_ANSWERED
    assert admission.before == admission.after


SHARED = {"options": options("distribute-cpus-across-numa"), "policy": "none"}
HALF_FREE = node(*["cpu=16/16/3 mem=9Gi"] * 16, **SHARED)  # type: ignore[arg-type]


def test_distribution_beyond_the_work_limit_is_refused() -> None:
    """Five zones in sixteen, and in each of 4,368 choices the ones that give one CPU more."""
    eight = node(*["cpu=16/16/3 mem=9Gi"] * 8, **SHARED)  # type: ignore[arg-type]
    assert evaluate(eight, asks("cpu=13 mem=1Gi"), means("none")).answered
    assert evaluate(HALF_FREE, asks("cpu=3 mem=1Gi"), means("none")).admitted
    assert not evaluate(HALF_FREE, asks("cpu=13 mem=1Gi"), means("none")).answered


def test_unknown_in_use_leaves_the_empty_node_unanswered() -> None:
    """Blocks of memory take whole zones here: eight of them, and nine are not left."""
    verdict = evaluate(HALF_FREE, asks("cpu=13 mem=64Gi | cpu=1 mem=73Gi"), means("none"))
    assert (verdict.answered, verdict.permanent, verdict.not_when_empty) == (False, False, True)


def test_pod_of_many_containers_is_admitted_in_steps() -> None:
    host, pod = of_zones(16), asks(many(40, "cpu=1 mem=1Gi"))
    steps = list(evaluating(host, pod))
    assert len(steps) == 39
    assert work_limit.units(host, pod) / (len(steps) + 1) < LIMIT_AT_ONCE


def test_best_effort_takes_a_step_for_each_merge() -> None:
    # The first zones have nothing left, so what comes nearest has to be searched.
    full, free = "cpu=4//0 mem=4Gi//0 gpu=4//0", "cpu=4//1 mem=4Gi//1Gi gpu=4//1"
    host = node(*[full] * 3, *[free] * 5, policy="best-effort")
    assert len(list(evaluating(host, asks("cpu=2 mem=3Gi gpu=1")))) == 2


def test_widths_of_too_many_zones_are_unknown() -> None:
    vast = node(*["cpu=8 mem=8Gi gpu=1"] * 64, policy="none")
    assert min_widths(vast, asks("cpu=9 mem=9Gi gpu=2").whole).keys() == {"cpu", GPU}


def test_too_small_node_of_64_zones_may_fit_later() -> None:
    vast = node(*["gpu=1/0"] * 60, *["gpu=1"] * 4, policy="none", totals="gpu=8 cpu=8 mem=8Gi")
    verdict = evaluate(vast, asks("cpu=1.. mem=1Gi.. gpu=6"))
    assert verdict.refused
    assert not verdict.permanent
