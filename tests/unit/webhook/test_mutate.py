"""What is written into which pod, as it would be stored."""

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
from tests.worlds.webhook import Cluster, Raw, cluster, raw, read, review_of, with_spec
from webhook.mutate import Steering, mutate, mutate_job, needs_survey
from webhook.patch import Mode
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod, SkipReason, job_template, subject

SINGLE = "single-numa-node"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
BUSY = node("cpu=8/8/0 mem=8Gi gpu=4", "cpu=8/8/0 mem=8Gi gpu=4", policy=SINGLE)
SMALL_CLASS, LARGE_CLASS = node_class(SMALL), node_class(LARGE)

BOTH = cluster([SMALL, SMALL, LARGE])

TWO_GPUS = "cpu=2 mem=1Gi gpu=2"
ASKING = raw(TWO_GPUS, policy=SINGLE)


def rule(operator: str, *values: str) -> Raw:
    return {"key": CLASS_LABEL, "operator": operator, "values": sorted(values)}


def required(*expressions: Raw) -> Raw:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {REQUIRED: terms}}


NOT_SMALL = required(rule("NotIn", SMALL_CLASS))
ONLY_LARGE = required(rule("In", LARGE_CLASS))
RATHER = {
    "nodeAffinity": {
        PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [rule("In", LARGE_CLASS)]}}]
    }
}
ZONE = {"key": "zone", "operator": "In", "values": ["z"]}


def affinity_of(made: Raw, now: Cluster, mode: Mode) -> Any:  # noqa: ANN401 - JSON, to compare with literals
    answer = mutate(read(made, now), now.cache, Steering(mode))
    if isinstance(answer, Allowed):
        return None
    return applied(made, answer.operations)["spec"]["affinity"]


EXCLUDE, INCLUDE, PREFER, OFF = "exclude", "include", "prefer", "off"
FITS, TIGHT, FULL, BARE = cluster([LARGE]), cluster([SMALL]), cluster([SMALL, BUSY]), cluster([])
PINNED = with_spec(ASKING, nodeName="n1")

VAST = node(*["cpu=8 mem=8Gi gpu=4"] * 18, policy=SINGLE)
"""More zones than anybody answers for."""

VASTLY, MAY = cluster([SMALL, LARGE, VAST]), required(rule("In", LARGE_CLASS, node_class(VAST)))

REMEMBERED, DECLARED = KnownShape(shape.of(LARGE), seen=1.0), KnownShape(shape.of(LARGE), declared=True)

WRITTEN = [
    # how, the pod, the cluster, its affinity then
    ("exclude keeps a pod from what cannot",      ASKING, BOTH,  EXCLUDE, NOT_SMALL),
    ("include keeps it to what can",              ASKING, BOTH,  INCLUDE, ONLY_LARGE),
    ("prefer leaves it a choice",                 ASKING, BOTH,  PREFER,  RATHER),
    ("off writes nothing",                        ASKING, BOTH,  OFF,     None),
    ("exclude has nothing to say where all can",  ASKING, FITS,  EXCLUDE, None),
    ("include names what can even where all can", ASKING, FITS,  INCLUDE, ONLY_LARGE),
    ("a pod that fits nowhere is left as it is",  ASKING, TIGHT, EXCLUDE, None),
    ("so it is when it must be included",         ASKING, TIGHT, INCLUDE, None),
    ("nothing is known of an empty cluster",      ASKING, BARE,  INCLUDE, None),
    ("a class that was not asked may take it",    ASKING, VASTLY, EXCLUDE, NOT_SMALL),
    ("it is added to what the owner asks",
        with_spec(ASKING, affinity=required(ZONE)), BOTH, EXCLUDE,
        required(ZONE, rule("NotIn", SMALL_CLASS))),
    ("a pod on its node is left alone",           PINNED, BOTH,  EXCLUDE, None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "now", "mode", "affinity"), table(WRITTEN))
def test_the_affinity_that_is_stored(made: Raw, now: Cluster, mode: str, affinity: object) -> None:
    assert affinity_of(made, now, Mode(mode)) == affinity


CROWDED = with_spec(ASKING, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ZONE] * 513}}})
SECOND = "numalign-scheduler"
GATE = "numalign.io/placement"
GATED = [{"name": GATE}]
OTHER_GATE = {"name": "example.com/quota"}

ROUTING, GATING = {"scheduler": SECOND}, {"gate": "enabled"}
DEFAULTED = with_spec(ASKING, schedulerName="default-scheduler")


def handed(made: Raw, now: Cluster, steering: Steering) -> tuple[object, object]:
    answer = mutate(read(made, now), now.cache, steering)
    spec = (made if isinstance(answer, Allowed) else applied(made, answer.operations))["spec"]
    return spec.get("schedulerName"), spec.get("schedulingGates")


LIFTED, UNLIFTED = Steering(Mode.OFF, gates=True), Steering(Mode.OFF)
HANDED_OVER = [
    # whom, the pod, the labels of its namespace, what may be written, its scheduler and gates then
    ("a pod that names nobody is routed",      ASKING, ROUTING, UNLIFTED, (SECOND, None)),
    ("an empty name names nobody",
        with_spec(ASKING, schedulerName=""), ROUTING, UNLIFTED, (SECOND, None)),
    ("no label routes nobody",                 ASKING, {}, LIFTED, (None, None)),
    ("one on its node is left alone",          PINNED, {**ROUTING, **GATING}, LIFTED, (None, None)),
    ("a pod waits at the gate",                ASKING, GATING, LIFTED, (None, GATED)),
    ("nobody waits where nobody lifts gates",  ASKING, GATING, UNLIFTED, (None, None)),
    ("it is added behind others",
        with_spec(ASKING, schedulingGates=[OTHER_GATE]), GATING, LIFTED, (None, [OTHER_GATE, *GATED])),
    ("it stands there once",
        with_spec(ASKING, schedulingGates=[*GATED, OTHER_GATE]), GATING, LIFTED,
        (None, [*GATED, OTHER_GATE])),
    ("what is no list of gates is left as it is",
        with_spec(ASKING, schedulingGates={"name": "x"}), GATING, LIFTED, (None, {"name": "x"})),
    ("what is no gate is passed over",
        with_spec(ASKING, schedulingGates=[7, {}]), GATING, LIFTED, (None, [7, {}, *GATED])),
]  # fmt: skip


@pytest.mark.parametrize(("made", "labels", "steering", "stored"), table(HANDED_OVER))
def test_scheduler_and_gate_of_a_pod(
    made: Raw, labels: dict[str, str], steering: Steering, stored: tuple[object, object]
) -> None:
    now = cluster([SMALL, LARGE], labels=labels)
    assert handed(made, now, steering) == stored
    # Nor does it depend on how classes are written.
    assert handed(made, now, replace(steering, injection=Mode.EXCLUDE)) == stored


def test_pod_that_fits_nowhere_is_routed_but_not_gated() -> None:
    for members, unknown in (([SMALL], 0), ([], 3)):
        assert handed(ASKING, cluster(members, unknown=unknown, labels=ROUTING), LIFTED) == (SECOND, None)
        assert handed(ASKING, cluster(members, unknown=unknown, labels=GATING), LIFTED) == (None, None)
    # It waits for nodes that may come.
    rules = cluster([], labels=GATING).snapshot
    for known in (REMEMBERED, DECLARED):
        assert handed(ASKING, Cluster(ClusterCache.of([SMALL], [known]), rules), LIFTED) == (None, GATED)


def test_patch_and_audit_hold_classes_and_placer() -> None:
    routed, gated = (cluster([SMALL, LARGE], labels=labels) for labels in (ROUTING, GATING))
    classes = {"classes": f"NotIn {SMALL_CLASS}"}

    for now, more in ((routed, {"scheduler": SECOND}), (gated, {"gate": GATE})):
        answer = mutate(read(DEFAULTED, now), now.cache, Steering(gates=True))
        assert isinstance(answer, Patched)
        assert dict(answer.audit) == classes | more
        stored = applied(DEFAULTED, answer.operations)
        assert stored["spec"]["affinity"] == NOT_SMALL
        # A second pass.
        assert mutate(read(stored, now), now.cache, Steering(gates=True)) == Allowed()


TOO_MANY = Allowed(audit={"unsteered": "its node affinity has more than 512 terms"})


def test_too_many_terms_or_a_long_patch_prevent_all() -> None:
    for mode in (EXCLUDE, INCLUDE, PREFER):
        assert mutate(read(CROWDED, BOTH), BOTH.cache, Steering(Mode(mode))) == TOO_MANY
    for labels in (ROUTING, GATING):
        now = cluster([LARGE], labels=labels)
        assert mutate(read(CROWDED, now), now.cache, LIFTED) == TOO_MANY
    exists = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    full = with_spec(ASKING, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [exists] * 512}}})
    classes = [node(f"cpu={cpus} mem=8Gi gpu=1", policy=SINGLE) for cpus in range(1, 40)]
    now = cluster([LARGE, *classes], labels=ROUTING)
    assert mutate(read(full, now), now.cache, Steering()) == Allowed(
        audit={"unsteered": "its patch would be longer than 524288 bytes"}
    )


def test_unpatchable_pod_needs_no_classes() -> None:
    free = raw("cpu=2 mem=1Gi", policy=SINGLE)
    now, gated, routed = (
        cluster([node("cpu=8 mem=8Gi", policy=SINGLE)], labels=labels)
        for labels in ({}, GATING, {**ROUTING, **GATING})
    )
    excluding, placed = Steering(Mode.EXCLUDE, gates=True), read(with_spec(free, nodeName="a"), gated)
    for needed, pod, steering in [
        (True, read(free, now), Steering(Mode.EXCLUDE)), (False, read(free, now), LIFTED),
        (True, read(free, gated), LIFTED),               (False, read(free, gated), UNLIFTED),
        (False, read(free, routed), LIFTED),             (False, placed, excluding),
    ]:  # fmt: skip
        assert needs_survey(pod, steering) is needed


# Pods that Karpenter must not evict.

DISRUPTED = "karpenter.sh/do-not-disrupt"
KEPT = cluster([SMALL, LARGE], labels={"do-not-disrupt": "enabled"})


def noted(pod: Raw, **annotations: str) -> Raw:
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def mutated(pod: Raw, now: Cluster) -> Allowed | Patched:
    reviewed = subject(review_of(pod), now.snapshot, reader=PodReader())
    return mutate(reviewed, now.cache, Steering(Mode.OFF)) if isinstance(reviewed, ReviewedPod) else Allowed()


def annotations(pod: Raw, now: Cluster) -> Raw:
    """Those of the pod as it is stored; a second pass adds nothing."""
    answer = mutated(pod, now)
    stored = applied(pod, answer.operations) if isinstance(answer, Patched) else pod
    assert mutated(stored, now) == Allowed()
    annotations: Raw = stored["metadata"]["annotations"]
    return annotations


@pytest.mark.parametrize("policy", [SINGLE, "restricted"])
def test_rejectable_pod_gets_do_not_disrupt(policy: str) -> None:
    asking = {"numalign.io/policy": policy}
    assert annotations(noted(ASKING, **asking), KEPT) == {**asking, DISRUPTED: "true"}
    # A pod without annotations gets its first.
    now = cluster([SMALL, LARGE], labels={"do-not-disrupt": "enabled", "default": policy})
    for bare in ({"name": "p"}, {"name": "p", "annotations": None}):
        assert annotations({**ASKING, "metadata": bare}, now) == {DISRUPTED: "true"}


UNKEPT = [
    # why                               the pod, the cluster
    ("the label says so",               ASKING, cluster([LARGE], labels={"do-not-disrupt": "disabled"})),
    ("no kubelet rejects it",           noted(ASKING, **{"numalign.io/policy": "best-effort"}), KEPT),
    ("it requests no alignment",        noted(ASKING, **{"numalign.io/policy": "none"}), KEPT),
    ("there is nothing to align",       noted(ASKING, **{"numalign.io/policy": "restricted",
                                                         "numalign.io/resources": "example.com/nic"}), KEPT),
    ("it has a node already",           PINNED, KEPT),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "now"), table(UNKEPT))
def test_a_pod_may_be_disrupted_if(pod: Raw, now: Cluster) -> None:
    assert annotations(pod, now) == pod["metadata"]["annotations"]


# Jobs, whose template queues read before there are pods.

JOBS = {"group": "batch", "version": "v1", "kind": "Job"}
LABELLED = {"job-affinity": "enabled"}
QUEUED = cluster([SMALL, LARGE], labels=LABELLED)


def job(pod: Raw) -> Raw:
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {**pod, "kind": None}}}


def created(pod: Raw, now: Cluster, mode: Mode = Mode.EXCLUDE) -> Allowed | Patched:
    reviewed = job_template(review_of(job(pod), kind=JOBS), now.snapshot, reader=PodReader())
    assert isinstance(reviewed, ReviewedPod)
    return mutate_job(reviewed, now.cache, Steering(mode, gates=True))


@pytest.mark.parametrize("mode", [Mode.EXCLUDE, Mode.INCLUDE])
def test_job_template_excludes_classes_that_never_fit(mode: Mode) -> None:
    answer = created(ASKING, QUEUED, mode)

    assert isinstance(answer, Patched)
    assert applied(job(ASKING), answer.operations)["spec"]["template"]["spec"] == {
        **ASKING["spec"],
        "affinity": NOT_SMALL,
    }
    assert answer.audit == {"classes": f"NotIn {SMALL_CLASS}"}


@pytest.mark.parametrize(("server", "qos"), [(36, "Burstable"), (37, "Guaranteed")])
def test_job_template_gets_the_qos_of_its_api_server(server: int, qos: str) -> None:
    requests = {"cpu": "2", "memory": "1Gi"}
    lacking = with_spec(raw("cpu=2 mem=1Gi", policy=SINGLE), resources={"requests": requests})
    now = replace(QUEUED.snapshot, server=server)

    reviewed = job_template(review_of(job(lacking), kind=JOBS), now, reader=PodReader())

    assert isinstance(reviewed, ReviewedPod)
    assert reviewed.request.question.demand.qos == qos


UNLABELLED = cluster([SMALL, LARGE], labels={"job-affinity": "disabled"})
TO_SCHEDULER = {**LABELLED, "scheduler": "numalign-scheduler", "gate": "enabled"}

UNCHANGED = [
    # why                                     the pod, the cluster, the mode
    ("the label says so",                     ASKING, UNLABELLED, Mode.EXCLUDE),
    ("pods are only to prefer classes",       ASKING, QUEUED, Mode.PREFER),
    ("all classes could",                     ASKING, cluster([LARGE], labels=LABELLED), Mode.EXCLUDE),
    ("it names its node",                     PINNED, QUEUED, Mode.EXCLUDE),
    ("nothing else is written into it",       ASKING, cluster([LARGE], labels=TO_SCHEDULER), Mode.EXCLUDE),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "now", "mode"), table(UNCHANGED))
def test_job_is_unchanged_if(pod: Raw, now: Cluster, mode: Mode) -> None:
    assert created(pod, now, mode) == Allowed()


def test_own_terms_leave_a_job_unsteered() -> None:
    """Its template is immutable: whoever applied it again would change the terms back, and fail."""
    answer = created(with_spec(ASKING, affinity=required(ZONE)), QUEUED)
    assert answer == Allowed(audit={"unsteered": "its template has required node affinity"})


NOT_READ = [
    ({"template": 7}, {}, "kind"), ({}, {}, "kind"), ({"template": raw(TWO_GPUS)}, {}, "silent"),
    ({"template": ASKING}, {"operation": "UPDATE"}, "operation"),
    ({"template": ASKING}, {"subResource": "status"}, "operation"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "changes", "skip"), NOT_READ)
def test_only_requesting_templates_of_new_jobs_are_read(spec: Raw, changes: Raw, skip: str) -> None:
    review = review_of({"spec": spec}, kind=JOBS, **changes)
    assert job_template(review, QUEUED.snapshot, reader=PodReader()) is SkipReason(skip)
