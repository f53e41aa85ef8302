"""What is written into a pod, and that it is written once and as a whole."""

from dataclasses import replace
from typing import Any

import pytest

from numalign.cache import ClusterCache
from numalign.kube.decode.pod_reader import PodReader
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import node_class
from numalign.shapes import KnownShape, shape
from tests.worlds.json_patch import applied
from tests.worlds.notation import node, table
from tests.worlds.webhook import Raw, Reviewing, cluster, raw, read, review_of, with_spec
from webhook.mutate import Steering, mutate, mutate_job, needs_survey
from webhook.patch import Mode
from webhook.review import JOB, Allowed, Patched, ReviewedPod, SkipReason, created_pod

SINGLE = "single-numa-node"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
VAST = node(*["cpu=8 mem=8Gi gpu=4"] * 18, policy=SINGLE)
"""More zones than are evaluated."""

SMALL_CLASS, LARGE_CLASS = node_class(SMALL), node_class(LARGE)
BOTH, FITS, TIGHT = cluster([SMALL, SMALL, LARGE]), cluster([LARGE]), cluster([SMALL])

TWO_GPUS = "cpu=2 mem=1Gi gpu=2"
ASKING = raw(TWO_GPUS, policy=SINGLE)
PINNED = with_spec(ASKING, nodeName="n1")
ZONE = {"key": "zone", "operator": "In", "values": ["z"]}


def rule(operator: str, *values: str) -> Raw:
    return {"key": CLASS_LABEL, "operator": operator, "values": sorted(values)}


def required(*expressions: Raw) -> Raw:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [*expressions]}]}}}


LIFTED, UNLIFTED = Steering(Mode.OFF, gates=True), Steering(Mode.OFF)


def steered(made: Raw, now: Reviewing, steering: Steering = UNLIFTED) -> Allowed | Patched:
    return mutate(read(made, now), now.cache, steering)


def stored(made: Raw, answer: Allowed | Patched) -> Any:  # noqa: ANN401  JSON, to compare with literals
    """The spec of the pod after the answer."""
    return (made if isinstance(answer, Allowed) else applied(made, answer.operations))["spec"]


NOT_SMALL, ONLY_LARGE = required(rule("NotIn", SMALL_CLASS)), required(rule("In", LARGE_CLASS))
RATHER = {
    "nodeAffinity": {
        PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [rule("In", LARGE_CLASS)]}}]
    }
}
VASTLY = cluster([SMALL, LARGE, VAST])
WRITTEN = [
    # how, the pod, the cluster, its affinity then
    ("exclude keeps a pod from what cannot",      ASKING, BOTH,  "exclude", NOT_SMALL),
    ("include keeps it to what can",              ASKING, BOTH,  "include", ONLY_LARGE),
    ("prefer leaves it a choice",                 ASKING, BOTH,  "prefer",  RATHER),
    ("exclude writes nothing where all can",      ASKING, FITS,  "exclude", None),
    ("a pod that fits nowhere is left as it is",  ASKING, TIGHT, "include", None),
    ("a class not evaluated may take it",         ASKING, VASTLY, "exclude", NOT_SMALL),
    ("a pod on its node is left alone",           PINNED, BOTH,  "exclude", None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "mode", "affinity"), table(WRITTEN))
def test_the_affinity_that_is_stored(made: Raw, now: Reviewing, mode: str, affinity: object) -> None:
    assert stored(made, steered(made, now, Steering(Mode(mode)))).get("affinity") == affinity


SECOND, GATE = "numalign-scheduler", "numalign.io/placement"
GATED, ODD = [{"name": GATE}], {"name": "x"}
ROUTING, GATING = {"scheduler": SECOND}, {"gate": "enabled"}
REMEMBERED, DECLARED = KnownShape(shape.of(LARGE), seen=1.0), KnownShape(shape.of(LARGE), declared=True)
HANDED_OVER = [
    # whom, the pod, the labels of its namespace, what may be written, its scheduler and gates then
    ("a pod without a scheduler is routed",  ASKING, ROUTING, UNLIFTED, (SECOND, None)),
    ("an empty name is none",  with_spec(ASKING, schedulerName=""), ROUTING, UNLIFTED, (SECOND, None)),
    ("a pod on its node is left alone",      PINNED, {**ROUTING, **GATING}, LIFTED, (None, None)),
    ("a pod waits at the gate",              ASKING, GATING, LIFTED, (None, GATED)),
    ("no pod waits where no gate is lifted", ASKING, GATING, UNLIFTED, (None, None)),
    ("gates that are no list stay", with_spec(ASKING, schedulingGates=ODD), GATING, LIFTED, (None, ODD)),
    ("odd gates are passed over",
        with_spec(ASKING, schedulingGates=[7, {}]), GATING, LIFTED, (None, [7, {}, *GATED])),
]  # fmt: skip


def handed(made: Raw, now: Reviewing, steering: Steering = LIFTED) -> tuple[object, object]:
    spec = stored(made, steered(made, now, steering))
    return spec.get("schedulerName"), spec.get("schedulingGates")


@pytest.mark.parametrize(("made", "labels", "steering", "placers"), table(HANDED_OVER))
def test_scheduler_and_gate_of_a_pod(
    made: Raw, labels: dict[str, str], steering: Steering, placers: tuple[object, object]
) -> None:
    now = cluster([SMALL, LARGE], labels=labels)
    # They do not depend on how classes are written.
    for each in (steering, replace(steering, injection=Mode.EXCLUDE)):
        assert handed(made, now, each) == placers


def test_pod_that_fits_nowhere_is_routed_but_not_gated() -> None:
    for members, unknown in (([SMALL], 0), ([], 3)):
        assert handed(ASKING, cluster(members, unknown=unknown, labels=ROUTING)) == (SECOND, None)
        assert handed(ASKING, cluster(members, unknown=unknown, labels=GATING)) == (None, None)
    # It waits for nodes that may come.
    policy = cluster([], labels=GATING).policy
    for known in (REMEMBERED, DECLARED):
        assert handed(ASKING, Reviewing(ClusterCache.of([SMALL], [known]), policy)) == (None, GATED)


def test_patch_and_audit_hold_classes_and_placer() -> None:
    made, steering = with_spec(ASKING, schedulerName="default-scheduler"), Steering(gates=True)
    for labels, more in ((ROUTING, {"scheduler": SECOND}), (GATING, {"gate": GATE})):
        now = cluster([SMALL, LARGE], labels=labels)
        answer = steered(made, now, steering)
        assert dict(answer.audit) == {"classes": f"NotIn {SMALL_CLASS}", **more}
        assert stored(made, answer)["affinity"] == NOT_SMALL
        # A second pass.
        assert steered({**made, "spec": stored(made, answer)}, now, steering) == Allowed()


def test_too_many_terms_or_a_long_patch_prevent_all() -> None:
    def with_terms(count: int) -> Raw:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}] * count}
        return with_spec(ASKING, affinity={"nodeAffinity": {REQUIRED: terms}})

    too_many = Allowed(audit={"unsteered": "its node affinity has more than 512 terms"})
    assert steered(with_terms(513), BOTH, Steering(Mode.EXCLUDE)) == too_many
    for labels in (ROUTING, GATING):
        assert steered(with_terms(513), cluster([LARGE], labels=labels), LIFTED) == too_many
    classes = [node(f"cpu={cpus} mem=8Gi gpu=1", policy=SINGLE) for cpus in range(1, 40)]
    answer = steered(with_terms(512), cluster([LARGE, *classes], labels=ROUTING), Steering())
    assert answer == Allowed(audit={"unsteered": "its patch would be longer than 524288 bytes"})


def test_unpatchable_pod_needs_no_classes() -> None:
    free = raw("cpu=2 mem=1Gi", policy=SINGLE)
    now, gated, routed = (
        cluster([node("cpu=8 mem=8Gi", policy=SINGLE)], labels=labels)
        for labels in ({}, GATING, {**ROUTING, **GATING})
    )
    placed = read(with_spec(free, nodeName="a"), gated)
    for needed, pod, steering in [
        (True, read(free, now), Steering(Mode.EXCLUDE)), (False, read(free, now), LIFTED),
        (True, read(free, gated), LIFTED),               (False, read(free, gated), UNLIFTED),
        (False, read(free, routed), LIFTED),             (False, placed, Steering(gates=True)),
    ]:  # fmt: skip
        assert needs_survey(pod, steering) is needed


# Pods that Karpenter must not evict.

DISRUPTED = "karpenter.sh/do-not-disrupt"
KEEPING = {"do-not-disrupt": "enabled"}
KEPT = cluster([SMALL, LARGE], labels=KEEPING)
NOTHING_TO_ALIGN = {"numalign.io/policy": "restricted", "numalign.io/resources": "example.com/nic"}
NOTED = [
    # which pod                      its annotations                      the cluster, whether it is kept
    ("of an exact policy",           {"numalign.io/policy": SINGLE},        KEPT, True),
    ("of a restricted policy",       {"numalign.io/policy": "restricted"},  KEPT, True),
    ("of a namespace without it",    {"numalign.io/policy": SINGLE},        FITS, False),
    ("that no kubelet rejects",      {"numalign.io/policy": "best-effort"}, KEPT, False),
    ("that requests no alignment",   {"numalign.io/policy": "none"},        KEPT, False),
    ("that has nothing to align",    NOTHING_TO_ALIGN,                      KEPT, False),
    ("without annotations",          None, cluster([SMALL], labels={**KEEPING, "default": SINGLE}), True),
]  # fmt: skip


@pytest.mark.parametrize(("noted", "now", "kept"), table(NOTED))
def test_do_not_disrupt_of_a_pod(noted: dict[str, str] | None, now: Reviewing, *, kept: bool) -> None:
    before = {**ASKING, "metadata": {"name": "p", "annotations": noted}}
    reviewed = created_pod(review_of(before), now.policy, reader=PodReader())
    answer = steered(before, now) if isinstance(reviewed, ReviewedPod) else Allowed()

    assert isinstance(answer, Patched) is kept
    if isinstance(answer, Patched):
        after = applied(before, answer.operations)
        assert after["metadata"]["annotations"] == {**(noted or {}), DISRUPTED: "true"}
        assert steered(after, now) == Allowed()


# Jobs, whose template queues read before there are pods.

JOBS = {"group": "batch", "version": "v1", "kind": "Job"}
LABELLED = {"job-affinity": "enabled"}
QUEUED = cluster([SMALL, LARGE], labels=LABELLED)
TO_SCHEDULER = {**LABELLED, "scheduler": "numalign-scheduler", "gate": "enabled"}
EXCLUDED = {"classes": f"NotIn {SMALL_CLASS}"}
WITH_TERMS = with_spec(ASKING, affinity=required(ZONE))
CREATED = [
    # what is written, or why nothing          the pod, the cluster, the mode, the audit annotations
    ("it excludes a class",                   ASKING, QUEUED, Mode.EXCLUDE, EXCLUDED),
    ("pods are included in classes",          ASKING, QUEUED, Mode.INCLUDE, EXCLUDED),
    ("the label says so",                     ASKING, BOTH, Mode.EXCLUDE, {}),
    ("pods are only to prefer classes",       ASKING, QUEUED, Mode.PREFER, {}),
    ("nothing else is written into it", ASKING, cluster([LARGE], labels=TO_SCHEDULER), Mode.EXCLUDE, {}),
    ("it names its node",                     PINNED, QUEUED, Mode.EXCLUDE, {}),
    # A template is immutable: its author would change its terms back, and fail.
    ("it has terms of its own",               WITH_TERMS, QUEUED, Mode.EXCLUDE,
     {"unsteered": "its template has required node affinity"}),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "now", "mode", "audit"), table(CREATED))
def test_template_of_a_new_job_if(pod: Raw, now: Reviewing, mode: Mode, audit: dict[str, str]) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {**pod, "kind": None}}}
    reviewed = created_pod(review_of(job, kind=JOBS), now.policy, reader=PodReader(), kind=JOB)
    assert isinstance(reviewed, ReviewedPod)
    answer = mutate_job(reviewed, now.cache, Steering(mode, gates=True))

    assert answer.audit == audit
    assert isinstance(answer, Patched) is ("classes" in audit)
    if isinstance(answer, Patched):
        spec = applied(job, answer.operations)["spec"]["template"]["spec"]
        assert spec == {**pod["spec"], "affinity": NOT_SMALL}


NOT_READ = [
    ({"template": 7}, {}, "kind"), ({"template": raw(TWO_GPUS)}, {}, "silent"),
    ({"template": ASKING}, {"operation": "UPDATE"}, "operation"),
    ({"template": ASKING}, {"subResource": "status"}, "operation"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "changes", "skip"), NOT_READ)
def test_only_requesting_templates_of_new_jobs_are_read(spec: Raw, changes: Raw, skip: str) -> None:
    review = review_of({"spec": spec}, kind=JOBS, **changes)
    assert created_pod(review, QUEUED.policy, reader=PodReader(), kind=JOB) is SkipReason(skip)
