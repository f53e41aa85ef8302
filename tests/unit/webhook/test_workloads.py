"""What is said of a workload when it is applied."""

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.admission import AdmissionDecision, AdmissionState, Refusals, RequestReaction
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.templates import MOST_TEMPLATES, TemplatePath
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy, Default, Exemptions
from numalign.model.attributes import Attributes, Labels
from numalign.model.errors import MOST_MISTAKES
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.steps import finished
from tests.unit.webhook.conftest import POLICY, Cluster, Raw, asked, cluster, decided, raw, with_spec
from tests.worlds.notation import node, table
from webhook.review import Allowed, Denied, Review, StatusReason
from webhook.subject import SkipReason
from webhook.validate import LONGEST_SHOWN
from webhook.workloads import Workload, Workloads, judge, workload

SINGLE = "single-numa-node"
WARN, DENY, OFF = Workloads

TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
ROOM, BARE = cluster([TWO]), cluster([])

FITS = raw("cpu=2 mem=1Gi gpu=1", policy=SINGLE)
NEVER = raw("cpu=2 mem=1Gi gpu=4", policy=SINGLE)
SILENT = raw("cpu=2 mem=1Gi gpu=1")
LARGE = raw("cpu=2 mem=1Gi gpu=4")
MISSPELT = raw("cpu=2 mem=1Gi gpu=1", policy="strictly")
VAIN = raw("cpu=1..2 mem=1Gi", policy=SINGLE)
PARTIAL = raw("cpu=500m gpu=1", policy=SINGLE)
NO_POD = raw(policy=SINGLE)


def template(pod: Raw) -> Raw:
    """The pod as it stands in a workload."""
    return {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}


def applied(version: str, kind: str, spec: object, **changes: object) -> Review:
    """A workload that somebody applies, as the API server asks about it."""
    group, _, number = version.rpartition("/")
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    return asked(made, kind={"group": group, "version": number, "kind": kind}, **changes)


def deployment(pod: Raw, **changes: object) -> Review:
    return applied("apps/v1", "Deployment", {"replicas": 3, "template": template(pod)}, **changes)


def volcano(*pods: Raw, **changes: object) -> Review:
    tasks = [{"name": f"t{at}", "template": template(pod)} for at, pod in enumerate(pods)]
    return applied("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}, **changes)


def read(review: Review, now: Cluster = ROOM, *, policy: ClusterPolicy = NO_POLICY) -> Workload | SkipReason:
    return finished(workload(review, now.snapshot, reader=PodReader(), policy=policy))


def answer(
    review: Review, now: Cluster = ROOM, *, mode: Workloads = WARN, may_fit: bool = False
) -> Allowed | Denied:
    found = read(review, now)
    assert isinstance(found, Workload)
    return judge(found, decided(now, may_fit=may_fit), mode=mode)


def said(review: Review, now: Cluster = ROOM, *, mode: Workloads = WARN) -> list[str]:
    """The warnings to a workload that is let pass."""
    decision = answer(review, now, mode=mode)
    assert isinstance(decision, Allowed)
    return list(decision.warnings)


# Whose business it is.

DISABLED = {"admission": "disabled"}
FOREIGN = applied("example.com/v1", "Deployment", {"replicas": 3, "containers": ["a"]})
UPDATE, DELETE = {"operation": "UPDATE"}, {"operation": "DELETE"}
SCALE = {**UPDATE, "subResource": "scale"}
OWNED, PARTLY = (
    [{"apiVersion": "apps/v1", "kind": "Deployment", "controller": True}],
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "example.com/v1", "kind": "Deployment", "controller": True},
        {"apiVersion": "apps/v1", "kind": "Deployment", "controller": "true"},
        7,
    ],
)


def spec_alone(spec: object, **changes: object) -> Review:
    return applied("apps/v1", "Deployment", spec, **changes)


def with_owners(owners: object, kind: str = "ReplicaSet") -> Review:
    return asked(
        {"metadata": {"ownerReferences": owners}, "spec": {"template": template(NEVER)}},
        kind={"group": "apps", "version": "v1", "kind": kind},
    )


SKIPPED = [
    # why                                   the review                          labels           what it is
    ("its kind makes no pods",              FOREIGN,                            {},              "kind"),
    ("it is a pod",                         asked(NEVER),                       {},              "kind"),
    ("it is a deletion",                    deployment(NEVER, **DELETE),        {},              "operation"),
    ("it is scaled",                        deployment(NEVER, **SCALE),         {},              "operation"),
    ("its namespace is disabled",           deployment(NEVER),                  DISABLED,        "exempt"),
    ("another workload controls it",        with_owners(OWNED),                 {},              "owned"),
    ("nobody asks anything",                deployment(SILENT),                 {},              "silent"),
    ("nobody asks anything of a list",      spec_alone([]),                     {},              "silent"),
    ("nobody asks anything of no template", spec_alone({"template": 7}),        {},              "silent"),
    ("it has no template",                  spec_alone({}),                     {"warn": SINGLE}, "silent"),
]  # fmt: skip


@pytest.mark.parametrize(("review", "labels", "skip"), table(SKIPPED))
def test_a_workload_is_left_when(review: Review, labels: dict[str, str], skip: str) -> None:
    assert read(review, cluster([TWO], labels=labels)) is SkipReason(skip)


@pytest.mark.parametrize("owner", PARTLY, ids=["no controller", "another group", "a text", "a number"])
def test_an_owner_counts_only_if_it_is_a_controller_that_is_looked_at(owner: object) -> None:
    assert isinstance(read(with_owners([owner])), Workload)


BY_CI = {"userInfo": {"username": "ci"}}
BY_KATA = with_spec(NEVER, runtimeClassName="kata")
SOME = ClusterPolicy(exemptions=Exemptions(("ci",), frozenset({"batch"}), frozenset({"kata"})))

EXEMPTED = [
    ("its user is",                        deployment(NEVER, **BY_CI)),
    ("its namespace is",                   deployment(NEVER, namespace="batch")),
    ("the runtime class of its pods is",   deployment(BY_KATA)),
    ("those of all its templates are",     volcano(BY_KATA, BY_KATA)),
    ("its user is, and its shape is odd",  spec_alone([], **BY_CI)),
]  # fmt: skip


@pytest.mark.parametrize("review", table(EXEMPTED))
def test_a_workload_is_exempt_if(review: Review) -> None:
    assert read(review, cluster([TWO], labels={"warn": SINGLE}), policy=SOME) is SkipReason.EXEMPT


def test_only_the_exempt_templates_of_a_workload_are_left() -> None:
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


# Kinds that nobody knows, and what stands in the wrong place.


def served(pod: Raw, **changes: object) -> Review:
    return applied("example.com/v1", "Server", {"server": {"podTemplate": template(pod)}}, **changes)


AT = "spec.server.podTemplate"
GUESSED = f"numalign: Server.example.com is an unknown kind: found a pod template at {AT}"


def test_a_template_of_an_unknown_kind_is_told_of_and_never_refuses() -> None:
    told = said(served(NEVER), mode=DENY)

    assert told[0].startswith(f"numalign: {AT}: no node can align ")
    assert told[1] == GUESSED


def test_a_template_of_an_unknown_kind_that_makes_no_sense_is_told_of_and_never_refuses() -> None:
    where = f"{AT}.metadata.annotations[numalign.io/policy]"

    told = said(served(MISSPELT), mode=DENY)

    assert [where[-40:] in told[0], "not a known value" in told[0], *told[1:]] == [True, True, GUESSED]


def test_an_unknown_kind_of_which_nobody_asks_anything_is_left() -> None:
    assert read(served(SILENT)) is SkipReason.SILENT


def test_an_annotation_on_the_workload_itself_is_told() -> None:
    review = deployment(SILENT)
    metadata = {"name": "web", "annotations": {"numalign.io/policy": SINGLE}}

    (told,) = said(replace(review, object={**review.object, "metadata": metadata}), mode=DENY)

    assert told == (
        "numalign: metadata.annotations[numalign.io/policy] has no effect on a Deployment: "
        "put it on spec.template.metadata.annotations"
    )


def test_a_workload_that_is_annotated_later_is_told_too() -> None:
    before = deployment(SILENT).object
    after = {**before, "metadata": {"name": "web", "annotations": {"numalign.io/policy": SINGLE}}}

    told = said(replace(deployment(SILENT, operation="UPDATE"), object=after, old=before))

    assert "has no effect on a Deployment" in told[0]
    assert (
        read(replace(deployment(SILENT, operation="UPDATE"), object=after, old=after)) is SkipReason.UNCHANGED
    )


# Updates.


def update(old: object, review: Review) -> Review:
    """The same review, as an update of something."""
    return asked(
        review.object,
        kind={"group": review.kind.group, "version": "v1", "kind": review.kind.kind},
        operation="UPDATE",
        oldObject=old,
    )


def test_an_update_that_leaves_the_template_is_left() -> None:
    before = deployment(NEVER).object
    after = spec_alone({"replicas": 9, "template": template(NEVER)})

    assert read(update(before, after)) is SkipReason.UNCHANGED


def test_only_the_templates_that_an_update_changes_are_looked_at() -> None:
    found = read(update(volcano(NEVER, FITS).object, volcano(NEVER, NEVER, FITS)))

    assert isinstance(found, Workload)
    assert [each.where for each in found.templates] == ["spec.tasks[1].template", "spec.tasks[2].template"]


@pytest.mark.parametrize(
    "old", [None, {}, {"spec": []}, {"spec": {"template": 7}}, deployment(SILENT).object], ids=repr
)
def test_an_update_of_anything_else_is_a_new_template(old: object) -> None:
    assert isinstance(read(update(old, deployment(NEVER))), Workload)


def deep() -> Raw:
    """A pod with as many levels as a call may have."""
    inner: Any = {}
    for _ in range(1000):
        inner = {"a": inner}
    return with_spec(NEVER, x=inner)


def test_a_template_too_deep_to_be_compared_is_a_new_one() -> None:
    before, after = ({"spec": {"template": template(deep())}} for _ in range(2))

    assert isinstance(read(replace(update({}, deployment(NEVER)), object=after, old=before)), Workload)


BY_ROLE = ClusterPolicy(templates={("x.io", "Train"): (TemplatePath.read("spec.roles.*.template"),)})


def roles(*made: Raw) -> Review:
    """A workload whose templates stand under names so long that they are shown alike."""
    named = {f"{'r' * 100}{at}": {"template": template(pod)} for at, pod in enumerate(made)}
    return applied("x.io/v3", "Train", {"roles": named})


def test_what_is_new_among_members_that_are_shown_alike_is_looked_at() -> None:
    found = read(update(roles(FITS, NEVER).object, roles(FITS, NEVER, VAIN)), policy=BY_ROLE)

    assert isinstance(found, Workload)
    assert [each.subject.pod for each in found.templates] == [template(VAIN)]


def test_what_stands_at_a_place_is_written_once_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    many = roles(*[NEVER] * MOST_TEMPLATES)
    changed = update(many.object, many)
    written: list[object] = []

    def counted(value: object, **how: Any) -> bytes:  # noqa: ANN401
        written.append(value)
        return dumps(value, **how)

    dumps = orjson.dumps
    monkeypatch.setattr(orjson, "dumps", counted)

    assert read(changed, policy=BY_ROLE) is SkipReason.UNCHANGED
    assert len(written) == 2 * MOST_TEMPLATES


WRONG = template(with_spec(NEVER, containers=[{"name": "", "resources": 7}] * 40))


def test_no_more_mistakes_are_told_than_anybody_reads() -> None:
    tasks = [{"template": WRONG}] * MOST_TEMPLATES
    found = read(applied("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}))

    assert isinstance(found, Workload)
    assert len(found.mistakes) == MOST_MISTAKES


def test_templates_are_read_one_at_each_step() -> None:
    review = volcano(*[NEVER] * MOST_TEMPLATES)

    assert sum(1 for _ in workload(review, ROOM.snapshot, reader=PodReader())) == MOST_TEMPLATES


def test_whoever_has_more_owners_than_are_read_is_looked_at_itself() -> None:
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
WANTED = "numalign: spec.template: this namespace expects NUMA alignment restricted; the pod requests nothing"
NOTHING = f"numalign: spec.template: {SINGLE} has no effect: the pod requests no devices, and cpu"
IN_PART = f"numalign: spec.template: {SINGLE} applies to nvidia.com/gpu only: cpu is not pinned, because"
WORDS = f'numalign: spec.template.metadata.annotations[{POLICY}]: "strictly" is not'

WARNED = [
    # what it shows                             the pod   the labels                           how it begins
    ("nothing, if it fits",                     FITS,     {},                                  []),
    ("that no node can align it",               NEVER,    {},                                  [ALIGNED]),
    ("that its namespace will not let it pass", SILENT,   {"enforce": SINGLE},                 [REFUSED]),
    ("the same once, if it also warns",         SILENT,   {"enforce": SINGLE, "warn": SINGLE}, [REFUSED]),
    ("that its namespace wants more",           LARGE,    {"warn": "restricted"},              [WANTED]),
    ("nothing of what is only audited",         SILENT,   {"audit": SINGLE},                   []),
    ("that it asks in vain",                    VAIN,     {},                                  [NOTHING]),
    ("that a part is not pinned",               PARTIAL,  {},                                  [IN_PART]),
    ("what is wrong in its annotations",        MISSPELT, {},                                  [WORDS]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "labels", "beginnings"), table(WARNED))
def test_whoever_applies_a_workload_hears(pod: Raw, labels: dict[str, str], beginnings: list[str]) -> None:
    warnings = said(deployment(pod), cluster([TWO], labels=labels))

    assert len(warnings) == len(beginnings)
    for warning, beginning in zip(warnings, beginnings, strict=True):
        assert warning.startswith(beginning)


def test_what_is_only_missing_in_a_template_refuses_no_workload() -> None:
    """A LimitRange may set what a container leaves out."""
    reviewed = read(deployment(PARTIAL))
    assert isinstance(reviewed, Workload)

    answer = judge(reviewed, decided(ROOM, refusals=Refusals(partial=RequestReaction.DENY)), mode=DENY)

    assert isinstance(answer, Allowed)
    assert answer.warnings[0].startswith(
        f"numalign: spec.template: its pods will be denied: {SINGLE} applies to"
    )


def test_the_decisive_comes_first() -> None:
    now = cluster([TWO], labels={"warn": SINGLE})

    warnings = said(volcano(VAIN, SILENT, NEVER, MISSPELT), now)

    assert [re.findall(r"\[(\d)\]\.template", warning) for warning in warnings] == [
        ["3"],
        ["2"],
        ["0"],
        ["1"],
    ]


def test_a_long_place_leaves_room_for_the_reason() -> None:
    found = read(roles(NEVER), policy=BY_ROLE)
    assert isinstance(found, Workload)

    decision = judge(found, decided(ROOM), mode=WARN)

    assert len(decision.warnings[0]) <= LONGEST_SHOWN
    assert "rrr...].template: no node can align" in decision.warnings[0]


@pytest.mark.parametrize("now", [BARE, cluster([], unknown=3)], ids=["no node", "none that is known"])
def test_where_no_topology_is_known_nothing_is_refused(now: Cluster) -> None:
    unchecked = "numalign: spec.template: NUMA alignment was not checked: no node topology is known"

    assert said(deployment(NEVER), now, mode=DENY) == [unchecked]


def test_a_template_that_cannot_be_read_is_told_where_somebody_asks() -> None:
    now = cluster([TWO], labels={"enforce": "restricted"})
    odd = {"list": [], "text": "x", "number": 7}

    for value in odd.values():
        (first, *_) = said(spec_alone({"template": value}), now)
        assert first.startswith("numalign: spec.template: must be an object, not ")
    (way,) = said(applied("batch.volcano.sh/v1alpha1", "Job", {"tasks": {}}), now)
    assert way == "numalign: spec.tasks: must be a list, not an object"


def test_a_huge_workload_is_not_reckoned() -> None:
    now = cluster([TWO], labels={"enforce": "restricted"})

    (warning,) = said(volcano(*[NEVER] * 101), now, mode=DENY)

    assert warning == "numalign: spec.tasks: has 101 entries: numalign supports at most 100"


# Refusals.

WHY = (
    f'no node can align container "c0" as {SINGLE} (0 of 1 node): 1 has at most 2 nvidia.com/gpu in one'
    " NUMA zone. Request at most 2 nvidia.com/gpu."
)


def test_where_it_is_set_so_a_workload_that_can_never_run_is_refused_in_full() -> None:
    assert answer(deployment(NEVER), mode=DENY) == Denied(
        reason=StatusReason.FORBIDDEN,
        message=f"numalign: spec.template: {WHY}",
        audit={"verdict": "denied", "state": "never", "policy": SINGLE},
    )


def test_of_several_templates_the_others_are_named() -> None:
    decision = answer(volcano(FITS, NEVER, NEVER, NEVER), mode=DENY)

    assert isinstance(decision, Denied)
    assert decision.message == (
        f"numalign: spec.tasks[1].template: {WHY}"
        " The same holds for spec.tasks[2].template, spec.tasks[3].template."
    )


def test_a_mistake_in_an_annotation_is_invalid_with_all_mistakes() -> None:
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
    made = raw("cpu=2 mem=1Gi gpu=4", policy=SINGLE)
    made["spec"]["containers"][0]["resources"] = written
    return made


GPUS = {"nvidia.com/gpu": "4"}
WHOLE = {"cpu": "2", "memory": "1Gi", **GPUS}

NOT_REFUSED = [
    # what it shows                                   the review
    ("it fits",                                       deployment(FITS)),
    ("it has no limit for CPU",                       deployment(limits(limits={"memory": "1Gi", **GPUS}))),
    ("it has no limit for memory",                    deployment(limits(limits={"cpu": "2", **GPUS}))),
    ("it has a request alone",
        deployment(limits(limits=WHOLE, requests={"example.com/x": "1"}))),
    ("one of its containers says nothing",
        deployment(with_spec(NEVER, initContainers=[{"name": "init"}]))),
    ("it names its node",                             deployment(with_spec(NEVER, nodeName="node"))),
    ("it is a DaemonSet",
        applied("apps/v1", "DaemonSet", {"template": template(NEVER)})),
    ("it is a wrong amount, which others refuse",
        deployment(limits(limits={"cpu": "-2"}))),
]  # fmt: skip


@pytest.mark.parametrize("review", table(NOT_REFUSED))
def test_a_workload_is_not_refused_if(review: Review) -> None:
    assert isinstance(answer(review, mode=DENY), Allowed)


def test_limits_alone_are_requests_too() -> None:
    assert isinstance(answer(deployment(limits(limits=WHOLE)), mode=DENY), Denied)


def test_a_level_of_the_namespace_refuses_pods_and_not_their_workload() -> None:
    now = cluster([TWO], labels={"enforce": SINGLE})

    assert said(deployment(SILENT), now, mode=DENY) == [REFUSED]


# What controllers write.

MANAGED = [
    # the kind, where its template is, where it is suspended
    ("Job batch/v1",                                "template", "suspend"),
    ("JobSet jobset.x-k8s.io/v1alpha2",             "replicatedJobs[].template.spec.template", "suspend"),
    ("RayCluster ray.io/v1",                        "headGroupSpec.template", "suspend"),
    ("RayJob ray.io/v1",                            "rayClusterSpec.workerGroupSpecs[].template", "suspend"),
    ("MPIJob kubeflow.org/v2beta1",                 "mpiReplicaSpecs.Worker.template", "runPolicy.suspend"),
    ("PyTorchJob kubeflow.org/v1",                  "pytorchReplicaSpecs.W.template", "runPolicy.suspend"),
    ("Deployment apps/v1",                          "template", ""),
    ("StatefulSet apps/v1",                         "template", ""),
    ("LeaderWorkerSet leaderworkerset.x-k8s.io/v1", "leaderWorkerTemplate.workerTemplate", ""),
]  # fmt: skip
every_kind = pytest.mark.parametrize(("sort", "path", "suspend"), MANAGED, ids=[row[0] for row in MANAGED])

POOL = cluster([replace(TWO, attributes=Attributes(Labels({"pool": "b"})))])

# What Kueue adds to a template to admit it.
POOLED = with_spec(
    {
        **NEVER,
        "metadata": {"annotations": {**NEVER["metadata"]["annotations"], "kueue.x-k8s.io/workload": "w"}},
    },
    nodeSelector={"pool": "b"},
    tolerations=[{"key": "numa", "operator": "Exists"}],
    schedulingGates=[{"name": "kueue.x-k8s.io/topology"}],
)


def at(path: str, value: object) -> dict[str, Any]:
    """An object with a value at a path, `[]` after a list of one."""
    for step in reversed(path.split(".")):
        value = {step.removesuffix("[]"): [value] if step.endswith("[]") else value}
    assert isinstance(value, dict)
    return value


def made(sort: str, spec: Raw, *, before: Raw | None = None, metadata: Raw | None = None) -> Review:
    """Such an object, which is created, or updated from the spec before."""
    kind, version = sort.split()
    changes = {} if before is None else {"operation": "UPDATE", "oldObject": {"spec": before}}
    review = applied(version, kind, spec, **changes)
    return replace(review, object={**review.object, "metadata": metadata or {"name": "web"}})


@every_kind
def test_what_a_user_creates_is_refused(sort: str, path: str, suspend: str) -> None:
    spec = {**at(path, template(NEVER)), **(at(suspend, True) if suspend else {})}  # noqa: FBT003  a value

    for metadata in ({"name": "web"}, {"generateName": "web-"}):
        assert isinstance(answer(made(sort, spec, metadata=metadata), mode=DENY), Denied)


@every_kind
def test_a_controller_may_place_the_pods_that_it_admits_and_evicts(
    sort: str, path: str, suspend: str
) -> None:
    mine, pooled = at(path, template(NEVER)), at(path, template(POOLED))
    stopped, started = (at(suspend, value) if suspend else {} for value in (True, False))
    admitted, evicted = (
        ({**mine, **stopped}, {**pooled, **started}),
        ({**pooled, **started}, {**mine, **stopped}),
    )

    for before, after in (admitted, evicted):
        assert "no node can align " in said(made(sort, after, before=before), POOL, mode=DENY)[0]


@every_kind
def test_only_of_a_suspended_workload_a_controller_may_change_requests(
    sort: str, path: str, suspend: str
) -> None:
    before, after = at(path, template(FITS)), at(path, template(NEVER))

    assert isinstance(answer(made(sort, after, before=before), mode=DENY), Denied)
    if suspend:
        for old, new in ((True, False), (False, True), (True, True)):
            review = made(sort, {**after, **at(suspend, new)}, before={**before, **at(suspend, old)})
            assert isinstance(answer(review, mode=DENY), Allowed)


@pytest.mark.parametrize("pod", [NEVER, MISSPELT], ids=["never", "misspelt"])
def test_what_was_there_before_it_was_refused_can_be_changed(pod: Raw) -> None:
    image = with_spec(pod, containers=[{**pod["spec"]["containers"][0], "image": "web:2"}])
    labelled = template(pod) | {"metadata": {**pod["metadata"], "labels": {"app": "web"}}}

    for after in (deployment(image), spec_alone({"template": labelled})):
        assert isinstance(answer(update(deployment(pod).object, after), mode=DENY), Allowed)


@pytest.mark.parametrize("before", [FITS, raw("cpu=2", policy="mostly")], ids=["right", "another mistake"])
def test_a_mistake_is_refused_in_the_update_that_makes_it(before: Raw) -> None:
    assert isinstance(answer(update(deployment(before).object, deployment(MISSPELT)), mode=DENY), Denied)


def test_templates_that_change_places_are_not_refused() -> None:
    after = volcano(FITS, NEVER)

    assert isinstance(answer(update(volcano(NEVER).object, after), mode=DENY), Allowed)


def test_what_a_controller_creates_for_a_kind_that_is_not_read_is_not_refused() -> None:
    assert isinstance(answer(with_owners([{**OWNED[0], "kind": "Unknown"}]), mode=DENY), Allowed)


TRAINER = "trainer.kubeflow.org/v1alpha1"


def test_a_template_without_a_namespace_is_reviewed_for_what_it_says_itself() -> None:
    everywhere = ClusterPolicy((Default((), NamespaceRules(default=Policy(SINGLE))),))

    def runtime(pod: Raw) -> Review:
        spec = at("template.spec.replicatedJobs[].template.spec.template", template(pod))
        return applied(TRAINER, "ClusterTrainingRuntime", spec, namespace="")

    assert "no node can align " in said(runtime(NEVER), mode=DENY)[0]
    assert read(runtime(LARGE), policy=everywhere) is SkipReason.SILENT


def test_resources_in_a_train_job_are_reviewed_and_never_refused() -> None:
    patched = at(
        "runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[]",
        {"name": "node", **at("template.spec.template.metadata.annotations", {POLICY: SINGLE})},
    )
    job = {"trainer": {"resourcesPerNode": {"limits": WHOLE}}, **patched}

    first, second = said(applied(TRAINER, "TrainJob", job), mode=DENY)
    assert first.startswith("numalign: spec.trainer: no node can align ")
    assert second.endswith("is not the whole pod: what its runtime adds is unknown")


def test_a_train_job_whose_runtime_may_set_the_policy_is_not_told_that_its_pods_will_be_denied() -> None:
    job = applied(TRAINER, "TrainJob", {"trainer": {"resourcesPerNode": {"limits": WHOLE}}})

    first, _second = said(job, cluster([TWO], labels={"enforce": SINGLE}))
    assert first.startswith('numalign: spec.trainer: its pods may be denied: namespace "team" enforces')


# The audit log.

BELOW = f"admitted with nothing, below {SINGLE}"
AUDITED = [
    # the review, the labels, what the audit log keeps
    ("its policy",                 deployment(FITS),   {},                f"admitted with {SINGLE}"),
    ("the same, if it never fits", deployment(NEVER),  {},                f"admitted with {SINGLE}"),
    ("less than is audited",       deployment(SILENT), {"audit": SINGLE}, BELOW),
    ("each of several, once",      volcano(FITS, VAIN, SILENT, MISSPELT), {"warn": "none"},
        f"invalid; admitted with {SINGLE}; admitted with nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("review", "labels", "kept"), table(AUDITED))
def test_the_audit_log_keeps(review: Review, labels: dict[str, str], kept: str) -> None:
    assert answer(review, cluster([TWO], labels=labels)).audit == {"verdict": kept}


# Questions, and laws.


@pytest.mark.parametrize(("mode", "gpus"), [(Workloads.WARN, [1, 4]), (Workloads.DENY, [1, 4, 1, 4])])
def test_what_the_nodes_will_be_asked_is_known_before_each_once(mode: Workloads, gpus: list[int]) -> None:
    found = read(volcano(FITS, NEVER, FITS, SILENT), cluster([TWO], labels={"warn": "none"}))

    assert isinstance(found, Workload)
    known = found.questions(mode)
    judged: list[PodQuestion] = []

    def decide(question: PodQuestion) -> AdmissionDecision:
        judged.append(question)
        return AdmissionDecision(AdmissionState.FITS)

    judge(found, decide, mode=mode)
    assert [each.question.demand.total["nvidia.com/gpu"] for each in known if each.requests_alignment] == gpus
    assert {*judged} <= {*known}


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
def test_without_the_mode_for_it_nothing_is_refused_or_written(
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
def test_any_object_is_left_or_answered(
    spec: object, metadata: object, labels: dict[str, str], sort: str
) -> None:
    version, kind = sort.split()
    group, _, number = version.rpartition("/")
    review = asked(
        {"metadata": metadata, "spec": spec}, kind={"group": group, "version": number, "kind": kind}
    )
    now = cluster([TWO], labels=labels)
    found = read(review, now)
    if isinstance(found, Workload):
        assert type(judge(found, decided(now), mode=DENY)) in {Allowed, Denied}
