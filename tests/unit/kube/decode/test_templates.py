"""Pods out of workloads of every kind, known or not."""

import json
import re
from typing import Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import templates
from numalign.kube.decode.templates import GroupKind, PodTemplate, TemplatePath, TemplateScan
from numalign.model.errors import BadPod, Mistake
from numalign.model.pod import Container, Pod
from tests.worlds.notation import table
from tests.worlds.objects import mistakes


def pods_of(written: dict[str, Any], **extra: templates.TemplatePaths) -> tuple[PodTemplate, ...]:
    seen = templates.scan(written, templates.group_kind(written), **extra)
    return templates.pod_templates(seen, owner=written)


POD = {"spec": {"containers": [{"name": "main", "image": "a"}]}}
INTENT = {"numalign.io/policy": "restricted"}

PLAIN = """v1/ReplicationController apps/v1/DaemonSet apps/v1/Deployment apps/v1/ReplicaSet
    apps/v1/StatefulSet apps.kruise.io/v1alpha1/CloneSet argoproj.io/v1alpha1/Rollout batch/v1/Job
    serving.knative.dev/v1/Configuration serving.knative.dev/v1/Service"""
KUBEFLOW = {"JAXJob": "jax", "MPIJob": "mpi", "PaddleJob": "paddle", "PyTorchJob": "pytorch", "TFJob": "tf",
    "XGBoostJob": "xgb"}  # fmt: skip
MANIFESTS = [
    # each kind, as its project shows it, its spec, where its pods are
    *((version, kind, "{replicas: 2, template: T}", ["spec.template"])
        for version, _, kind in (each.rpartition("/") for each in PLAIN.split())),
    *(("kubeflow.org/v1", kind, f"{name}ReplicaSpecs: {{Worker: {{template: T}}, Master: null}}",
        [f"spec.{name}ReplicaSpecs.Worker.template"]) for kind, name in KUBEFLOW.items()),
    ("argoproj.io/v1alpha1", "Rollout",           "workloadRef: {kind: Deployment}",         []),
    ("batch/v1", "CronJob",
        "{schedule: '@daily', jobTemplate: {spec: {template: T}}}", ["spec.jobTemplate.spec.template"]),
    ("batch.volcano.sh/v1alpha1", "Job",          "tasks: [{replicas: 1, template: T}, {}, {template: T}]",
        ["spec.tasks[0].template", "spec.tasks[2].template"]),
    ("jobset.x-k8s.io/v1alpha2", "JobSet",
        "replicatedJobs: [{name: w, template: {spec: {template: T}}}]",
        ["spec.replicatedJobs[0].template.spec.template"]),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
        "leaderWorkerTemplate: {leaderTemplate: T, workerTemplate: T}",
        ["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"]),
    ("ray.io/v1", "RayCluster",
        "{headGroupSpec: {template: T}, workerGroupSpecs: [{groupName: g, template: T}]}",
        ["spec.headGroupSpec.template", "spec.workerGroupSpecs[0].template"]),
    ("ray.io/v1", "RayJob",
        "{rayClusterSpec: {headGroupSpec: {template: T}}, submitterPodTemplate: T}",
        ["spec.rayClusterSpec.headGroupSpec.template", "spec.submitterPodTemplate"]),
    ("ray.io/v1", "RayService",                   "rayClusterConfig: {workerGroupSpecs: [{template: T}]}",
        ["spec.rayClusterConfig.workerGroupSpecs[0].template"]),
    ("ray.io/v1", "RayCronJob",
        "{schedule: '@daily', jobTemplate: {rayClusterSpec: {headGroupSpec: {template: T}}}}",
        ["spec.jobTemplate.rayClusterSpec.headGroupSpec.template"]),
    ("grove.io/v1alpha1", "PodClique",            "{roleName: r, podSpec: S}", ["spec.podSpec"]),
    ("grove.io/v1alpha1", "PodCliqueSet",
        "template: {cliques: [{name: a, spec: {podSpec: S}}, {name: b, spec: {podSpec: S}}]}",
        ["spec.template.cliques[0].spec.podSpec", "spec.template.cliques[1].spec.podSpec"]),
    ("serving.kserve.io/v1beta1", "InferenceService",
        "{predictor: S, transformer: S, explainer: {minReplicas: 1}}",
        ["spec.predictor", "spec.transformer"]),
]  # fmt: skip


def filled(text: str) -> Any:  # noqa: ANN401  any YAML
    """What is written, with a pod template in place of each T, and the spec of a pod in place of each S."""
    template = json.dumps(POD)
    return yaml.load(
        re.sub(r"\bT\b", template, re.sub(r"\bS\b", json.dumps(POD["spec"]), text)), yaml.CSafeLoader
    )


def workload(version: str, kind: str, spec: object) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "team"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("version", "kind", "spec", "where"), MANIFESTS, ids=lambda value: str(value)[:40])
def test_pods_of_each_kind_of_workload(version: str, kind: str, spec: str, where: list[str]) -> None:
    made = pods_of(workload(version, kind, filled(spec)))
    assert [each.where for each in made] == where
    assert all(each.pod == Pod("web", "team", containers=(Container("main"),)) for each in made)


def test_a_pod_template_is_a_pod() -> None:
    written = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "web"}, "template": POD}
    assert [(each.where, each.pod) for each in pods_of(written)] == [
        ("template", Pod("web", "default", containers=(Container("main"),)))
    ]


def test_every_known_kind_has_a_manifest() -> None:
    shown = {(version.rpartition("/")[0], kind) for version, kind, *_ in MANIFESTS}
    assert shown | {("", "Pod"), ("", "PodTemplate"), *PARTIAL} == {*templates.TEMPLATES}


def test_a_wrong_name_is_one_mistake_for_all_templates() -> None:
    job = workload("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": POD}] * 2})
    for written in ({"apiVersion": "v1", "kind": "Pod", **POD}, job):
        assert mistakes(BadPod, pods_of, {**written, "metadata": {"name": 1}}) == [
            "metadata.name: must be a string, not a number"
        ]


EMPTY: dict[str, object] = {"template": {}}
TASKS = [{"template": {"spec": {"containers": [{}]}}}, {"template": [1]}]


@pytest.mark.parametrize(("written", "expected"), table([
    # situation: (the sort, its spec, every mistake in order)
    ("in every template", ("batch.volcano.sh/v1alpha1", "Job", {"tasks": TASKS}),
        ["spec.tasks[0].template.spec.containers[0].name: is missing",
            "spec.tasks[1].template: must be an object, not a list",
            "spec.tasks[1].template.spec: is missing"]),
    ("too many tasks", ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [None] * 1_000_000}),
        ["spec.tasks: has 1000000 entries: numalign supports at most 100"]),
    ("too many templates",
        ("ray.io/v1", "RayCluster", {"headGroupSpec": EMPTY, "workerGroupSpecs": [EMPTY] * 100}),
        ["has 101 pod templates: numalign supports at most 100"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: tuple[str, str, object], expected: list[str]) -> None:
    assert mistakes(BadPod, pods_of, workload(*written)) == expected


def test_configured_kinds_extend_the_known_ones() -> None:
    extra = {
        ("example.com", "Train"): (TemplatePath.read("spec.roles.*.template"),),
        ("apps", "Deployment"): (TemplatePath.read("spec.template"), TemplatePath.read("spec.canary")),
    }
    train = workload("example.com/v2", "Train", {"roles": {"a": {"template": POD}}})
    web = workload("apps/v1", "Deployment", {"template": POD, "canary": POD})
    result = [[each.where for each in pods_of(written, extra=extra)] for written in (train, web)]
    assert result == [["spec.roles.a.template"], ["spec.template", "spec.canary"]]


@pytest.mark.parametrize("text", ["spec.tasks[*].template", "a.*.b", "*", "a[*]"])
def test_a_path_is_written_as_it_was_read(text: str) -> None:
    assert str(TemplatePath.read(text)) == text


@pytest.mark.parametrize(("text", "message"), table([
    ("nothing", "", "a name is missing"),
    ("no name", "spec..template", "a name is missing"),
    ("a list in a list", "spec.tasks[*][*]", r'"tasks\[\*\]" is not a valid step'),
    ("too many steps", ".".join("a" * 17), "has 17 steps: at most 16 are allowed"),
    ("too many stars", "a[*].b[*].*", r"has \[\*\] and \* 3 times: at most 2 are allowed"),
]))  # fmt: skip
def test_invalid_paths(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TemplatePath.read(text)


def look(version: str, kind: str, spec: object, annotations: object = None) -> TemplateScan:
    written = {**workload(version, kind, spec), "metadata": {"name": "web", "annotations": annotations}}
    return templates.scan(written, templates.group_kind(written))


VOLCANO = "volcano.sh/numa-topology-policy"


@pytest.mark.parametrize(("own", "annotations"), table([
    ("over its own", {"mine": "kept", VOLCANO: "overwritten"}, {"mine": "kept", VOLCANO: "restricted"}),
    ("beside annotations that are none", [7], [7]),
]))  # fmt: skip
def test_a_topology_policy_of_a_task_is_an_annotation(own: object, annotations: object) -> None:
    task = {"template": {"metadata": {"annotations": own}, **POD}, "topologyPolicy": "restricted"}
    (place,) = look("batch.volcano.sh/v1alpha1", "Job", {"tasks": [task]}).places
    assert place.raw == {"metadata": {"annotations": annotations}, **POD}


def service(predictor: object, **annotations: str) -> TemplateScan:
    return look("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor}, annotations)


def test_inference_pods_have_annotations_of_both_levels() -> None:
    containers = [{"image": "a"}, {"name": "b"}]
    (place,) = service({"containers": containers, "annotations": {"b": "2", "c": "2"}}, a="1", b="1").places
    assert (place.where, place.guessed) == ("spec.predictor", False)
    assert place.raw["metadata"] == {"annotations": {"a": "1", "b": "2", "c": "2"}}  # type: ignore[index]
    assert place.raw["spec"]["containers"] == [{"name": "containers-0", "image": "a"}, {"name": "b"}]  # type: ignore[index]


def test_a_model_is_a_guess_with_its_resources() -> None:
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    seen = service({"model": {"runtime": "vllm", "resources": limits}})
    (place,) = seen.places
    assert place.guessed
    assert place.raw["spec"]["containers"] == [{"name": "kserve-container", "resources": limits}]  # type: ignore[index]
    (how,) = seen.guesses
    assert how.startswith("spec.predictor of InferenceService.serving.kserve.io is not the whole pod")


def cliques(*specs: object, startup: str | None = None) -> TemplateScan:
    listed = [{"annotations": {"a": str(at)}, "spec": spec} for at, spec in enumerate(specs)]
    template = {"cliques": listed, "cliqueStartupType": startup}
    return look("grove.io/v1alpha1", "PodCliqueSet", {"template": template})


CLIQUE = {"podSpec": POD["spec"]}


def test_pods_of_a_clique_have_its_annotations() -> None:
    _, second = cliques(CLIQUE, CLIQUE).places
    assert second.raw == {"metadata": {"annotations": {"a": "1"}}, "spec": CLIQUE["podSpec"]}
    assert not second.guessed


@pytest.mark.parametrize(("startup", "after", "waits"), [
    (None, None, False), ("CliqueStartupTypeInOrder", None, True),
    ("CliqueStartupTypeExplicit", ["c0"], True),
])  # fmt: skip
def test_a_later_clique_has_a_waiting_container(startup: str | None, after: object, *, waits: bool) -> None:
    places = cliques(CLIQUE, {**CLIQUE, "startsAfter": after}, startup=startup).places
    assert ["grove-initc" in str(place.raw) for place in places] == [False, waits]


def workflow(*steps: object, **spec: object) -> TemplateScan:
    return look("argoproj.io/v1alpha1", "Workflow", {"templates": [*steps], **spec})


MAIN, SIDE = {"image": "a"}, {"name": "s", "image": "b"}


@pytest.mark.parametrize(("step", "containers"), table([
    # situation: (a template of a workflow, the containers of its pod)
    ("a container with a sidecar", {"container": MAIN, "sidecars": [SIDE]},
        [{**MAIN, "name": "main"}, SIDE, {"name": "wait"}]),
    ("other templates", {"steps": [[{"template": "x"}]]}, None),
    ("what is no template", {"container": 7, "containerSet": [], "sidecars": 7}, None),
]))  # fmt: skip
def test_a_template_of_a_workflow_runs(step: object, containers: list[object] | None) -> None:
    places = workflow(step).places
    assert [place.raw["spec"]["containers"] for place in places] == ([containers] if containers else [])  # type: ignore[index]


def test_a_template_overrides_its_workflow() -> None:
    own = {"metadata": {"annotations": {"a": "1"}}, "nodeSelector": {"x": "y"}}
    scan = workflow({"container": MAIN}, {"script": MAIN, **own},
        podMetadata={"annotations": {"a": "0", "b": "0"}}, nodeSelector={"pool": "a"})  # fmt: skip
    first, second = (cast("dict[str, Any]", place.raw) for place in scan.places)
    assert first["metadata"]["annotations"] == {"a": "0", "b": "0"}
    assert second["metadata"]["annotations"] == {"a": "1", "b": "0"}
    assert [each["spec"]["nodeSelector"] for each in (first, second)] == [{"pool": "a"}, {"x": "y"}]
    (message,) = scan.guesses
    assert message.startswith("spec.templates[0] and 1 more of Workflow.argoproj.io are not the whole pods")


RUNTIME = {"template": {"spec": {"replicatedJobs": [{"template": {"spec": {"template": POD}}}]}}}
RUNTIME_AT = "spec.template.spec.replicatedJobs[0].template.spec.template"

PARTIAL: dict[GroupKind, tuple[object, str]] = {
    # a kind that runs the templates of workflows: its spec, where they are
    ("argoproj.io", "Workflow"): ({"templates": [{"container": MAIN}]}, "spec.templates[0]"),
    ("argoproj.io", "WorkflowTemplate"): ({"templates": [{"container": MAIN}]}, "spec.templates[0]"),
    ("argoproj.io", "CronWorkflow"): (
        {"workflowSpec": {"templates": [{"container": MAIN}]}}, "spec.workflowSpec.templates[0]"),
    # kinds of Kubeflow Trainer: a TrainJob and its runtime are one pod together
    ("trainer.kubeflow.org", "TrainingRuntime"): (RUNTIME, RUNTIME_AT),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): (RUNTIME, RUNTIME_AT),
    ("trainer.kubeflow.org", "TrainJob"): ({"trainer": {"resourcesPerNode": {}}}, "spec.trainer"),
}  # fmt: skip


@pytest.mark.parametrize("sort", PARTIAL, ids=lambda sort: sort[1])
def test_pods_that_another_object_completes_are_guessed(sort: GroupKind) -> None:
    spec, where = PARTIAL[sort]
    places = look(f"{sort[0]}/v1alpha1", sort[1], spec).places
    assert [(place.where, place.guessed) for place in places] == [(where, True)]


def train_job(spec: dict[str, object], **annotations: str) -> TemplateScan:
    return look("trainer.kubeflow.org/v1alpha1", "TrainJob", spec, annotations)


def patch(annotations: dict[str, str], *, name: str = "node", **selector: str) -> dict[str, Any]:
    """A patch of a runtime's pod template, as Trainer 2.2 takes it."""
    changes = {"metadata": {"annotations": annotations}, "spec": {"nodeSelector": selector}}
    job = {"name": name, "template": {"spec": {"template": changes}}}
    return {"manager": "me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


NODE = {"resourcesPerNode": {"limits": {"cpu": "9"}}}


def override(*jobs: str, **changes: object) -> dict[str, object]:
    """The same as Trainer 2.1 takes it."""
    return {"targetJobs": [{"name": name} for name in jobs], **changes}


MARKED = {"annotations": {**INTENT, "x": "1"}}


@pytest.mark.parametrize("changes", table([
    ("2.2", {"runtimePatches":
        [patch(INTENT), patch({"x": "1"}, pool="a"), patch({"x": "2"}, name="launcher")]}),
    ("2.1", {"podTemplateOverrides":
        [override("launcher", "node", metadata=MARKED, spec={"nodeSelector": {"pool": "a"}}),
            override("launcher", metadata={"annotations": {"x": "2"}})]}),
]))  # fmt: skip
def test_nodes_of_a_train_job_have_its_changes(changes: dict[str, object]) -> None:
    seen = train_job({"trainer": NODE, **changes})
    (place,) = seen.places
    assert place.raw == {"metadata": {"annotations": {**INTENT, "x": "1"}},
        "spec": {"nodeSelector": {"pool": "a"}, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "node", "resources": NODE["resourcesPerNode"]}]}}  # fmt: skip
    assert not seen.misplaced


PATCHED = (
    "spec.runtimePatches[*].trainingRuntimeSpec.template.spec.replicatedJobs[*]"
    ".template.spec.template.metadata.annotations"
)


@pytest.mark.parametrize(("scan", "places"), table([
    # an object with one pod, and where mistakes in the pod are in the object
    ("a service", service(POD["spec"]),
        {"spec.containers[0].name": "spec.predictor.containers[0].name",
            "metadata.annotations[numalign.io/policy]": "metadata.annotations[numalign.io/policy]",
            "spec": "spec.predictor", "specific": "spec.predictor.specific"}),
    ("a clique", cliques(CLIQUE),
        {"metadata.annotations[a]": "spec.template.cliques[0].annotations[a]",
            "spec.containers[0].name": "spec.template.cliques[0].spec.podSpec.containers[0].name"}),
    ("a step of a workflow", workflow({"container": MAIN, "sidecars": [SIDE]}),
        {"spec.containers[0].resources": "spec.templates[0].container.resources",
            "spec.containers[1].name": "spec.templates[0].sidecars[0].name",
            "spec.initContainers[0].name": "spec.templates[0].initContainers[0].name",
            "metadata.annotations[a]": "spec.templates[0].metadata.annotations[a]"}),
    ("nodes of a train job", train_job({"trainer": NODE}),
        {"spec.containers[0].resources.limits.cpu": "spec.trainer.resourcesPerNode.limits.cpu",
            "metadata.annotations[a]": f"{PATCHED}[a]"}),
]))  # fmt: skip
def test_a_mistake_in_a_pod_has_its_place_in(scan: TemplateScan, places: dict[str, str]) -> None:
    (place,) = scan.places
    found = [place.in_object(Mistake(where, "is wrong")) for where in places]
    assert found == [Mistake(where, "is wrong") for where in places.values()]


@pytest.mark.parametrize("trainer", [None, 7, {}, {"resourcesPerNode": 7}], ids=repr)
def test_a_train_job_without_resources_is_no_pod(trainer: object) -> None:
    seen = train_job({"trainer": trainer, "runtimePatches": [patch(INTENT)]})
    assert seen.places == ()
    assert seen.guesses[0].startswith("the pods of a TrainJob.trainer.kubeflow.org cannot be read from it")


@pytest.mark.parametrize("trainer", [NODE, None], ids=["resources", "none"])
def test_an_annotation_of_a_train_job_has_no_effect(trainer: object) -> None:
    message = f"has no effect on a TrainJob: put it on {PATCHED}, or on the template of its runtime"
    seen = train_job({"annotations": {**INTENT, "other": "x"}, "trainer": trainer}, **INTENT)
    assert seen.misplaced == tuple(
        f"{above}.annotations[numalign.io/policy] {message}" for above in ("metadata", "spec")
    )
    assert train_job({"trainer": trainer, "runtimePatches": [patch(INTENT)]}, **INTENT).misplaced == ()


def nested(steps: str) -> object:
    inner: object = {"template": POD}
    for step in steps:
        inner = {step: inner}
    return inner


@pytest.mark.parametrize(("spec", "where"), table([
    # situation: (the spec of the object, where its pods are)
    ("a template", {"template": POD}, ["spec.template"]),
    ("templates in lists", {"roles": [{"a": POD}, {"a": POD}]}, ["spec.roles[0].a", "spec.roles[1].a"]),
    ("the spec of a pod as the spec of the object", POD["spec"], ["spec"]),
    ("a template inside of another's spec",
        {"template": {"spec": {"jobTemplate": {"spec": {"template": POD}}}}},
        ["spec.template.spec.jobTemplate.spec.template"]),
    ("no containers", {"template": {"spec": {"containers": []}}}, []),
    ("patches of containers", {"template": {"spec": {"containers": [{"name": "a", "env": []}]}}}, []),
    ("sixteen levels", "a" * 14, ["spec" + ".a" * 14 + ".template"]),
    ("seventeen levels", "a" * 15, []),
]))  # fmt: skip
def test_unknown_kinds_are_searched_for_pods(spec: object, where: list[str]) -> None:
    seen = look("x.io/v1", "Thing", nested(spec) if isinstance(spec, str) else spec)
    assert [place.where for place in seen.places] == where
    assert all(place.guessed for place in seen.places)
    assert seen.mistakes == ()


def test_guesses_name_the_places_of_an_unknown_kind() -> None:
    roles = {f"r{number}": POD for number in range(5)}
    first = ["spec.r0", "spec.r1", "spec.r2"]
    assert look("x.io/v1", "Thing", {"template": POD}).guesses == (
        "Thing.x.io is an unknown kind: found a pod template at spec.template",
    )
    assert look("v1", "Thing", roles).guesses == (
        f"Thing is an unknown kind: found a pod template at {', '.join(first)} and 2 more places",
    )
    assert look("v1", "Service", {"ports": [{"port": 80}]}).guesses == ()


@pytest.mark.parametrize("sort", ["NIMService.apps.nvidia.com", "TaskRun.tekton.dev"])
def test_kinds_that_compute_their_pods(sort: str) -> None:
    kind, _, group = sort.partition(".")
    (message,) = look(f"{group}/v1", kind, {"template": {"metadata": {"annotations": INTENT}}}).guesses
    assert message.startswith(f"the pods of a {sort} cannot be read from it and were not checked: ")


def test_annotations_without_a_template() -> None:
    assert look("x.io/v1", "Thing", {"server": {"annotations": INTENT, "gpus": 8}}).guesses == (
        "Thing.x.io is an unknown kind: found no pod template for spec.server.annotations",
    )
    assert look("x.io/v1", "Thing", {"server": {"annotations": {"example.com/policy": "x"}}}).guesses == ()
    assert len(look("x.io/v1", "Thing", {"a": {"annotations": INTENT}, "b": POD}).guesses) == 1


@pytest.mark.parametrize("spec", table([
    ("deep", nested("a" * 900)),
    ("wide", {str(number): {} for number in range(templates.MOST_SEARCHED + 1)}),
]))  # fmt: skip
def test_a_search_is_limited(spec: object) -> None:
    assert look("x.io/v1", "Thing", spec).guesses == (
        "Thing.x.io is an unknown kind, too large or too deeply nested to search completely",
    )


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["spec", "template", "containers", "image", "metadata", "a"]), inner),
    ),
    max_leaves=30,
)
SORTS = [*templates.TEMPLATES, ("x.io", "Thing")]


@given(st.sampled_from(SORTS), JSON, JSON)
def test_a_search_never_raises(sort: GroupKind, metadata: object, spec: object) -> None:
    seen = templates.scan({"metadata": metadata, "spec": spec, "template": spec}, sort)
    assert len(seen.places) <= templates.MOST_TEMPLATES


ON_POD = {"template": {"metadata": {"annotations": INTENT}, **POD}}
PUT, TASK = "put it on spec.template.metadata.annotations", "spec.tasks[0]"
WHETHER = "it is unknown whether a Thing passes it on to its pods"


@pytest.mark.parametrize(("written", "message"), table([
    # situation: (kind, its spec, its own annotations, the messages)
    ("ours", ("apps/v1", "Deployment", {"template": POD}, INTENT),
        [f"metadata.annotations[numalign.io/policy] has no effect on a Deployment: {PUT}"]),
    ("on a job of Volcano", ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": POD}]}, INTENT),
        [f"metadata.annotations[numalign.io/policy] has no effect on a Job: {PUT.replace('spec', TASK)}"]),
    ("on an unknown kind", ("x.io/v1", "Thing", {"template": POD}, INTENT),
        [f"metadata.annotations[numalign.io/policy] may have no effect: {WHETHER}"]),
    ("the template's too", ("apps/v1", "Deployment", ON_POD, INTENT), []),
    ("on a pod", ("v1", "Pod", POD["spec"], INTENT), []),
    ("on a clique", ("grove.io/v1alpha1", "PodClique", CLIQUE, INTENT), []),
    ("annotations that are none", ("apps/v1", "Deployment", {"template": POD}, [7]), []),
    ("where it is handed on",
        ("serving.kserve.io/v1beta1", "InferenceService", {"predictor": POD["spec"]}, INTENT), []),
    ("on a set of cliques",
        ("grove.io/v1alpha1", "PodCliqueSet", {"template": {"cliques": [{"spec": CLIQUE}]}}, INTENT),
        [("metadata.annotations[numalign.io/policy] has no effect on a PodCliqueSet: put it on"
          " spec.template.cliques[0].annotations")]),
]))  # fmt: skip
def test_misplaced_annotations(written: tuple[str, str, object, object], message: list[str]) -> None:
    assert list(look(*written).misplaced) == message
