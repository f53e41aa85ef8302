"""What is said of a workload when it is applied."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.admission import Refusals, RequestReaction
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.templates import MOST_TEMPLATES, TemplatePath
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy, Default, Exemptions
from numalign.model.errors import MOST_MISTAKES
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.options import NEWEST
from numalign.model.steps import finished
from tests.worlds.notation import node, table
from tests.worlds.webhook import POLICY, Raw, Reviewing, cluster, decided, raw, review_of, with_spec
from webhook.review import LONGEST_SHOWN, Allowed, Denied, Review, SkipReason, StatusReason
from webhook.workloads import Workload, Workloads, judge, workload

SINGLE = "single-numa-node"
WARN, DENY, OFF = Workloads

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
ROOM = cluster([TWO])

FITS = raw("cpu=2 mem=1Gi gpu=1", policy=SINGLE)
NEVER = raw("cpu=2 mem=1Gi gpu=4", policy=SINGLE)
SILENT = raw("cpu=2 mem=1Gi gpu=1")
MISSPELT = raw("cpu=2 mem=1Gi gpu=1", policy="strictly")
VAIN = raw("cpu=1..2 mem=1Gi", policy=SINGLE)
PARTIAL = raw("cpu=500m gpu=1", policy=SINGLE)
NO_POD = raw(policy=SINGLE)


def template(pod: Raw) -> Raw:
    return {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}


def applied(version: str, kind: str, spec: object, **changes: object) -> Review:
    group, _, number = version.rpartition("/")
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    return review_of(made, kind={"group": group, "version": number, "kind": kind}, **changes)


def deployment(pod: Raw, **changes: object) -> Review:
    return applied("apps/v1", "Deployment", {"replicas": 3, "template": template(pod)}, **changes)


def volcano(*pods: Raw, **changes: object) -> Review:
    tasks = [{"name": f"t{at}", "template": template(pod)} for at, pod in enumerate(pods)]
    return applied("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}, **changes)


def read(
    review: Review, now: Reviewing = ROOM, *, policy: ClusterPolicy = NO_POLICY
) -> Workload | SkipReason:
    return finished(workload(review, replace(now.policy, policy=policy), reader=PodReader(), server=NEWEST))


def answer(
    review: Review, now: Reviewing = ROOM, *, mode: Workloads = WARN, may_fit: bool = False
) -> Allowed | Denied:
    found = read(review, now)
    assert isinstance(found, Workload)
    return judge(found, decided(now, may_fit=may_fit), mode=mode)


def warnings_of(review: Review, now: Reviewing = ROOM, *, mode: Workloads = WARN) -> list[str]:
    decision = answer(review, now, mode=mode)
    assert isinstance(decision, Allowed)
    return list(decision.warnings)


DISABLED = {"admission": "disabled"}
FOREIGN = applied("example.com/v1", "Deployment", {"replicas": 3, "containers": ["a"]})
UPDATE, DELETE = {"operation": "UPDATE"}, {"operation": "DELETE"}
SCALE = {**UPDATE, "subResource": "scale"}
OWNED = [{"apiVersion": "apps/v1", "kind": "Deployment", "controller": True}]
PARTLY = [{**OWNED[0], "controller": "true"}, {**OWNED[0], "apiVersion": "example.com/v1"}, 7]


def spec_alone(spec: object, **changes: object) -> Review:
    return applied("apps/v1", "Deployment", spec, **changes)


def with_owners(owners: object, kind: str = "ReplicaSet") -> Review:
    return review_of(
        {"metadata": {"ownerReferences": owners}, "spec": {"template": template(NEVER)}},
        kind={"group": "apps", "version": "v1", "kind": kind},
    )


BY_CI = {"userInfo": {"username": "ci"}}
BY_KATA = with_spec(NEVER, runtimeClassName="kata")
SOME = ClusterPolicy(exemptions=Exemptions(("ci",), frozenset({"batch"}), frozenset({"kata"})))
SKIPPED = [
    # why                                   the review                          labels           what it is
    ("its kind makes no pods",              FOREIGN,                            {},              "kind"),
    ("it is a deletion",                    deployment(NEVER, **DELETE),        {},              "operation"),
    ("it is scaled",                        deployment(NEVER, **SCALE),         {},              "operation"),
    ("its namespace is disabled",           deployment(NEVER),                  DISABLED,        "exempt"),
    ("its user is exempt, and it is odd",   spec_alone([], **BY_CI),            {"warn": SINGLE}, "exempt"),
    ("the class of its pods is exempt",     deployment(BY_KATA),                {},              "exempt"),
    ("another workload controls it",        with_owners(OWNED),                 {},              "owned"),
    ("nobody asks anything",                deployment(SILENT),                 {},              "silent"),
    ("it has no template",                  spec_alone({}),                     {"warn": SINGLE}, "silent"),
]  # fmt: skip


@pytest.mark.parametrize(("review", "labels", "skip"), table(SKIPPED))
def test_workload_is_skipped_if(review: Review, labels: dict[str, str], skip: str) -> None:
    assert read(review, cluster([TWO], labels=labels), policy=SOME) is SkipReason(skip)


def test_only_a_supported_controller_counts_as_owner() -> None:
    for owner in PARTLY:
        assert isinstance(read(with_owners([owner])), Workload)


def test_exempt_templates_are_skipped() -> None:
    found = read(volcano(BY_KATA, NEVER), policy=SOME)
    assert isinstance(found, Workload)
    assert [each.where for each in found.templates] == ["spec.tasks[1].template"]


def test_a_policy_adds_kinds_and_rules() -> None:
    policy = ClusterPolicy(
        (Default((), NamespaceRules(default=Policy(SINGLE))),),
        templates={("x.io", "Train"): (TemplatePath.read("spec.roles.*.template"),)},
    )
    review = applied("x.io/v3", "Train", {"roles": {"a": {"template": template(SILENT)}}})

    found = read(review, policy=policy)

    assert isinstance(found, Workload)
    assert [(each.where, each.subject.request.policy) for each in found.templates] == [
        ("spec.roles.a.template", SINGLE)
    ]
    assert read(review) is SkipReason.SILENT


def served(pod: Raw, **changes: object) -> Review:
    return applied("example.com/v1", "Server", {"server": {"podTemplate": template(pod)}}, **changes)


AT = "spec.server.podTemplate"
GUESSED = f"numalign: Server.example.com is an unknown kind: found a pod template at {AT}"


def test_template_of_an_unknown_kind_only_warns() -> None:
    lines = warnings_of(served(NEVER), mode=DENY)
    assert lines[0].startswith(f"numalign: {AT}: no node can align ")
    assert lines[1] == GUESSED
    first, _ = warnings_of(served(SILENT), cluster([TWO], labels={"enforce": SINGLE}))
    assert first.startswith(f'numalign: {AT}: its pods may be denied: namespace "team" enforces')


def test_annotation_on_the_workload_warns() -> None:
    new, changed = deployment(SILENT), deployment(SILENT, operation="UPDATE")
    before = new.object
    after = {**before, "metadata": {"name": "web", "annotations": {POLICY: SINGLE}}}
    for review in (replace(new, object=after), replace(changed, object=after, old=before)):
        [text] = warnings_of(review, mode=DENY)
        assert text.startswith(
            f"numalign: metadata.annotations[{POLICY}] has no effect on a Deployment: put "
        )
        assert text.endswith(" it on spec.template.metadata.annotations")
    assert read(replace(changed, object=after, old=after)) is SkipReason.UNCHANGED


# Updates.


def update(old: object, review: Review) -> Review:
    kind = {"group": review.kind.group, "version": "v1", "kind": review.kind.kind}
    return review_of(review.object, kind=kind, operation="UPDATE", oldObject=old)


def test_only_changed_templates_are_reviewed() -> None:
    scaled = spec_alone({"replicas": 9, "template": template(NEVER)})
    assert read(update(deployment(NEVER).object, scaled)) is SkipReason.UNCHANGED
    found = read(update(volcano(NEVER, FITS).object, volcano(NEVER, NEVER, FITS)))
    assert isinstance(found, Workload)
    assert [each.where for each in found.templates] == ["spec.tasks[1].template", "spec.tasks[2].template"]


def test_template_of_anything_else_or_too_deep_is_new() -> None:
    for old in (None, {"spec": {"template": 7}}, deployment(SILENT).object):
        assert isinstance(read(update(old, deployment(NEVER))), Workload)
    inner: list[Any] = [{}, {}]
    for _ in range(1000):
        inner = [{"a": each} for each in inner]
    before, after = ({"spec": {"template": template(with_spec(NEVER, x=each))}} for each in inner)
    assert isinstance(read(replace(update({}, deployment(NEVER)), object=after, old=before)), Workload)


WRONG = template(with_spec(NEVER, containers=[{"name": "", "resources": 7}] * 40))


def test_mistakes_templates_and_owners_are_limited() -> None:
    tasks = [{"template": WRONG}] * MOST_TEMPLATES
    found = read(applied("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}))
    assert isinstance(found, Workload)
    assert len(found.mistakes) == MOST_MISTAKES
    # Templates are read one per step.
    review = volcano(*[NEVER] * MOST_TEMPLATES)
    assert sum(1 for _ in workload(review, ROOM.policy, reader=PodReader(), server=NEWEST)) == MOST_TEMPLATES
    assert isinstance(read(with_owners(OWNED * 513)), Workload)
    assert read(with_owners(OWNED * 512)) is SkipReason.OWNED


# Warnings.

ALIGNED = (
    f'numalign: spec.template: no node can align container "c0" as {SINGLE} (0 of 1 node): 1 has at most 2'
)
REFUSED = (
    'numalign: spec.template: its pods will be denied: namespace "team" enforces NUMA alignment of at least'
    f" {SINGLE}, and the pod requests none"
)
WORDS = f'numalign: spec.template.metadata.annotations[{POLICY}]: "strictly" is not'

WARNED = [
    # what it shows                             the pod   the labels                           how it begins
    ("nothing, if it fits",                     FITS,     {},                                  []),
    ("that no node can align it",               NEVER,    {},                                  [ALIGNED]),
    ("that its namespace will not let it pass", SILENT,   {"enforce": SINGLE},                 [REFUSED]),
    ("what is wrong in its annotations",        MISSPELT, {},                                  [WORDS]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "labels", "beginnings"), table(WARNED))
def test_workload_is_warned_of(pod: Raw, labels: dict[str, str], beginnings: list[str]) -> None:
    warnings = warnings_of(deployment(pod), cluster([TWO], labels=labels))
    assert len(warnings) == len(beginnings)
    for warning, beginning in zip(warnings, beginnings, strict=True):
        assert warning.startswith(beginning)


def test_omitted_limits_deny_no_workload() -> None:
    """A LimitRange may set what a container leaves out."""
    reviewed = read(deployment(PARTIAL))
    assert isinstance(reviewed, Workload)

    answer = judge(reviewed, decided(ROOM, refusals=Refusals(partial=RequestReaction.DENY)), mode=DENY)

    assert isinstance(answer, Allowed)
    assert answer.warnings[0].startswith(
        f"numalign: spec.template: its pods will be denied: {SINGLE} applies to"
    )


def test_the_decisive_comes_first() -> None:
    warnings = warnings_of(volcano(VAIN, SILENT, NEVER, MISSPELT), cluster([TWO], labels={"warn": SINGLE}))
    assert [re.findall(r"\[(\d)\]\.template", warning) for warning in warnings] == [
        ["3"], ["2"], ["0"], ["1"]
    ]  # fmt: skip


UNCHECKED = "spec.template: NUMA alignment was not checked: no node topology is known"
HUGE = "spec.tasks: has 101 entries: numalign supports at most 100"
NOT_JUDGED = [
    ("no node is known",              cluster([], unknown=3), deployment(NEVER), UNCHECKED),
    ("it has more tasks than are read", cluster([TWO], labels={"enforce": "restricted"}),
        volcano(*[NEVER] * 101), HUGE),
]  # fmt: skip


@pytest.mark.parametrize(("now", "review", "text"), table(NOT_JUDGED))
def test_workload_is_admitted_with_a_warning_if(now: Reviewing, review: Review, text: str) -> None:
    assert warnings_of(review, now, mode=DENY) == [f"numalign: {text}"]


# Refusals.

WHY = (
    f'no node can align container "c0" as {SINGLE} (0 of 1 node): 1 has at most 2 nvidia.com/gpu in one'
    " NUMA zone. Request at most 2 nvidia.com/gpu."
)


def test_mode_deny_denies_impossible_workloads() -> None:
    audit = {"verdict": "denied", "state": "never", "policy": SINGLE}
    assert answer(deployment(NEVER), mode=DENY) == Denied(
        reason=StatusReason.FORBIDDEN, message=f"numalign: spec.template: {WHY}", audit=audit
    )
    # Of several templates the others are named.
    decision = answer(volcano(FITS, NEVER, NEVER, NEVER), mode=DENY)
    assert isinstance(decision, Denied)
    assert decision.message == (
        f"numalign: spec.tasks[1].template: {WHY}"
        " The same holds for spec.tasks[2].template, spec.tasks[3].template."
    )


def test_invalid_annotation_is_denied_with_every_mistake() -> None:
    both = raw("cpu=2 mem=1Gi", annotations={POLICY: "strictly", "numalign.io/scop": "pod"})
    both["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "-1"

    decision = answer(deployment(both), mode=DENY)

    assert isinstance(decision, Denied)
    assert (decision.reason, decision.audit) == (StatusReason.INVALID, {"verdict": "invalid"})
    assert decision.message.endswith("(and 2 more)")
    assert [cause.where for cause in decision.causes] == [
        "spec.template.metadata.annotations[numalign.io/scop]",
        f"spec.template.metadata.annotations[{POLICY}]",
        "spec.template.spec.containers[0].resources.limits.cpu",
    ]


def limits(**written: object) -> Raw:
    """A pod that asks for too many GPUs, its container's resources as they are written."""
    return with_spec(NEVER, containers=[{**NEVER["spec"]["containers"][0], "resources": written}])


GPUS = {"nvidia.com/gpu": "4"}

NOT_REFUSED = [
    ("it has no limit for CPU",              deployment(limits(limits={"memory": "1Gi", **GPUS}))),
    ("one of its containers says nothing",   deployment(with_spec(NEVER, initContainers=[{"name": "init"}]))),
    ("it names its node",                    deployment(with_spec(NEVER, nodeName="node"))),
    ("it is a DaemonSet",                    applied("apps/v1", "DaemonSet", {"template": template(NEVER)})),
    ("it is a wrong amount, which others refuse", deployment(limits(limits={"cpu": "-2"}))),
    ("its owner is of an unknown kind",      with_owners([{**OWNED[0], "kind": "Unknown"}])),
]  # fmt: skip


@pytest.mark.parametrize("review", table(NOT_REFUSED))
def test_a_workload_is_not_refused_if(review: Review) -> None:
    assert isinstance(answer(review, mode=DENY), Allowed)


# What controllers write.

MANAGED = [
    # the kind, where its template is, where it is suspended
    ("Job batch/v1",                                "template", "suspend"),
    ("PyTorchJob kubeflow.org/v1",                  "pytorchReplicaSpecs.W.template", "runPolicy.suspend"),
    ("Deployment apps/v1",                          "template", ""),
]  # fmt: skip


def at(path: str, value: object) -> Raw:
    for step in reversed(path.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(("sort", "path", "suspend"), MANAGED, ids=[row[0] for row in MANAGED])
def test_only_suspended_workloads_may_change_requests(sort: str, path: str, suspend: str) -> None:
    """Kueue adds to their templates to admit them."""
    kind, version = sort.split()
    before, after = at(path, template(FITS)), at(path, template(NEVER))

    def denied(spec: Raw, **changes: object) -> bool:
        return isinstance(answer(applied(version, kind, spec, **changes), mode=DENY), Denied)

    assert denied(after)
    assert denied(after, operation="UPDATE", oldObject={"spec": before})
    if suspend:
        assert denied({**after, **at(suspend, True)})  # noqa: FBT003  a value
        for old, new in ((True, False), (False, True), (True, True)):
            was = {"spec": {**before, **at(suspend, old)}}
            assert not denied({**after, **at(suspend, new)}, operation="UPDATE", oldObject=was)


@pytest.mark.parametrize("pod", [NEVER, MISSPELT], ids=["never", "misspelt"])
def test_only_a_new_mistake_of_an_update_is_denied(pod: Raw) -> None:
    image = with_spec(pod, containers=[{**pod["spec"]["containers"][0], "image": "web:2"}])
    assert isinstance(answer(update(deployment(pod).object, deployment(image)), mode=DENY), Allowed)
    for before in (FITS, raw("cpu=2", policy="mostly")):
        assert isinstance(answer(update(deployment(before).object, deployment(pod)), mode=DENY), Denied)


def test_audit_log_has_each_verdict_once() -> None:
    several = answer(volcano(FITS, VAIN, SILENT, MISSPELT), cluster([TWO], labels={"warn": "none"}))
    assert several.audit == {"verdict": f"invalid; admitted with {SINGLE}; admitted with nothing"}


any_pod = st.sampled_from([FITS, NEVER, SILENT, MISSPELT, VAIN, NO_POD, BY_KATA])
levels = st.dictionaries(
    st.sampled_from(["enforce", "warn", "audit", "default"]), st.sampled_from(["none", "restricted", SINGLE])
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "template", "tasks", "containers"]), inner)
    ),
)


@given(st.lists(any_pod, max_size=4), levels, st.sampled_from([WARN, OFF]), st.booleans())
def test_mode_other_than_deny_admits_everything(
    pods: list[Raw], labels: dict[str, str], mode: Workloads, may_fit: object
) -> None:
    now = cluster([TWO], unknown=1, labels=labels)
    found = read(volcano(*pods), now)
    if isinstance(found, Workload):
        decision = judge(found, decided(now, may_fit=bool(may_fit)), mode=mode)
        assert type(decision) is Allowed
        assert all(len(warning) <= LONGEST_SHOWN for warning in decision.warnings)
        assert mode is WARN or not decision.warnings


@given(anything, anything, levels, st.sampled_from(["apps/v1 Deployment", "batch.volcano.sh/v1alpha1 Job"]))
def test_any_object_is_skipped_or_answered(
    spec: object, metadata: object, labels: dict[str, str], sort: str
) -> None:
    version, kind = sort.split()
    group, _, number = version.rpartition("/")
    review = review_of(
        {"metadata": metadata, "spec": spec}, kind={"group": group, "version": number, "kind": kind}
    )
    now = cluster([TWO], labels=labels)
    found = read(review, now)
    if isinstance(found, Workload):
        assert type(judge(found, decided(now), mode=DENY)) in {Allowed, Denied}
