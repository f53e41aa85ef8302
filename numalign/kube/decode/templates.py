"""
Where the pods are in the objects that create them.

Common kinds are known: the API of their project defines the paths of their pod templates. Platform teams
configure paths for their own kinds. All other objects are searched for pod templates, and those results are
guesses: no object is refused for them, and every user is told how it was read.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from heapq import nsmallest
from itertools import chain
from operator import or_
from types import MappingProxyType
from typing import Any, TypeAlias

from numalign.kube.decode import pods
from numalign.kube.decode.parts import Part, group, inner, inner_list
from numalign.model import intent
from numalign.model.errors import BadPod, Mistake
from numalign.model.intent import Policy
from numalign.model.pod import Pod

MOST_TEMPLATES = 100
"""The limit in one object, and of entries on the way to them; a job with several roles has a handful."""

MOST_SEARCHED = 20_000
"""The limit of values that are searched for a template in one object, its lists and objects together."""

_MOST_STEPS, _MOST_WILD = 16, 2
_MOST_NAMED, _LONGEST_KEY = 3, 80
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")
_ELEMENTS, _MEMBERS = "[*]", "*"
_WILD = frozenset({_ELEMENTS, _MEMBERS})
_PLACING = ("nodeSelector", "affinity", "tolerations")


@dataclass(frozen=True, slots=True)
class TemplatePath:
    """The path to the pod templates of an object: `spec.tasks[*].template`, `spec.replicaSpecs.*.template`.

    A step is the name of a member, `[*]` for every element of a list, or `*` for every member of an object.
    """

    steps: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> "TemplatePath":
        """Return the path in a text; raise `ValueError` if it is invalid."""
        steps = [
            step
            for part in text.split(".")
            for step in ((part.removesuffix(_ELEMENTS), _ELEMENTS) if part.endswith(_ELEMENTS) else (part,))
        ]
        for step in steps:
            if step and step not in _WILD and not _NAME.fullmatch(step):
                how = "write names with dots, [*] after a list, or *"
                raise ValueError(f'"{step[:64]}" is not a valid step: {how}')
        if "" in steps:
            raise ValueError("a name is missing: write a path like spec.tasks[*].template")
        if len(steps) > _MOST_STEPS:
            raise ValueError(f"has {len(steps)} steps: at most {_MOST_STEPS} are allowed")
        if (wild := len([step for step in steps if step in _WILD])) > _MOST_WILD:
            raise ValueError(f"has [*] and * {wild} times: at most {_MOST_WILD} are allowed")
        return cls(tuple(steps))

    def __str__(self) -> str:
        return ".".join(self.steps).replace(f".{_ELEMENTS}", _ELEMENTS)

    def found(self, workload: Part) -> Iterator[Part]:
        """Return every place in an object to which the path leads and that has a value."""
        parts: Iterable[Part] = (workload,)
        for step in self.steps:
            parts = _step(parts, step)
        return (part for part in parts if part.value is not None)


def _step(parts: Iterable[Part], step: str) -> Iterator[Part]:
    for part in parts:
        value = part.value
        if step not in _WILD:
            yield part[step]
        elif isinstance(value, list | dict) and len(value) > MOST_TEMPLATES:
            part.wrong(f"has {len(value)} entries: numalign supports at most {MOST_TEMPLATES}")
        elif step == _ELEMENTS:
            yield from part.objects()
        else:
            yield from (member for _, member in part.members())


GroupKind: TypeAlias = tuple[str, str]
"""The type of an object: API group (empty for the core) and kind."""

TemplatePaths: TypeAlias = Mapping[GroupKind, tuple[TemplatePath, ...]]


def _paths(*texts: str) -> tuple[TemplatePath, ...]:
    return tuple(map(TemplatePath.read, texts))


def _ray(cluster: str) -> tuple[str, str]:
    return f"{cluster}.headGroupSpec.template", f"{cluster}.workerGroupSpecs[*].template"


_SPEC_TEMPLATE = _paths("spec.template")
_STEPS = _paths("spec.templates[*]")

POD: GroupKind = ("", "Pod")
POD_CLIQUE: GroupKind = ("grove.io", "PodClique")
VOLCANO_JOB: GroupKind = ("batch.volcano.sh", "Job")
INFERENCE_SERVICE: GroupKind = ("serving.kserve.io", "InferenceService")
TRAIN_JOB: GroupKind = ("trainer.kubeflow.org", "TrainJob")
CLUSTER_TRAINING_RUNTIME: GroupKind = ("trainer.kubeflow.org", "ClusterTrainingRuntime")
TRAINING_RUNTIMES: tuple[GroupKind, ...] = (
    CLUSTER_TRAINING_RUNTIME,
    ("trainer.kubeflow.org", "TrainingRuntime"),
)

# The paths are those of each project's own API types.
TEMPLATES: TemplatePaths = MappingProxyType(
    {
        POD: (TemplatePath(),),
        ("", "PodTemplate"): _paths("template"),
        ("", "ReplicationController"): _SPEC_TEMPLATE,
        ("apps", "DaemonSet"): _SPEC_TEMPLATE,
        ("apps", "Deployment"): _SPEC_TEMPLATE,
        ("apps", "ReplicaSet"): _SPEC_TEMPLATE,
        ("apps", "StatefulSet"): _SPEC_TEMPLATE,
        ("batch", "CronJob"): _paths("spec.jobTemplate.spec.template"),
        ("batch", "Job"): _SPEC_TEMPLATE,
        ("apps.kruise.io", "CloneSet"): _SPEC_TEMPLATE,
        ("argoproj.io", "CronWorkflow"): _paths("spec.workflowSpec.templates[*]"),
        ("argoproj.io", "Rollout"): _SPEC_TEMPLATE,
        ("argoproj.io", "Workflow"): _STEPS,
        ("argoproj.io", "WorkflowTemplate"): _STEPS,
        VOLCANO_JOB: _paths("spec.tasks[*].template"),
        POD_CLIQUE: _paths("spec"),
        ("grove.io", "PodCliqueSet"): _paths("spec.template.cliques[*].spec"),
        ("jobset.x-k8s.io", "JobSet"): _paths("spec.replicatedJobs[*].template.spec.template"),
        ("kubeflow.org", "JAXJob"): _paths("spec.jaxReplicaSpecs.*.template"),
        ("kubeflow.org", "MPIJob"): _paths("spec.mpiReplicaSpecs.*.template"),
        ("kubeflow.org", "PaddleJob"): _paths("spec.paddleReplicaSpecs.*.template"),
        ("kubeflow.org", "PyTorchJob"): _paths("spec.pytorchReplicaSpecs.*.template"),
        ("kubeflow.org", "TFJob"): _paths("spec.tfReplicaSpecs.*.template"),
        ("kubeflow.org", "XGBoostJob"): _paths("spec.xgbReplicaSpecs.*.template"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _paths(
            "spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"
        ),
        ("ray.io", "RayCluster"): _paths(*_ray("spec")),
        ("ray.io", "RayCronJob"): _paths(
            *_ray("spec.jobTemplate.rayClusterSpec"), "spec.jobTemplate.submitterPodTemplate"
        ),
        ("ray.io", "RayJob"): _paths(*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate"),
        ("ray.io", "RayService"): _paths(*_ray("spec.rayClusterConfig")),
        ("serving.knative.dev", "Configuration"): _SPEC_TEMPLATE,
        ("serving.knative.dev", "Service"): _SPEC_TEMPLATE,
        INFERENCE_SERVICE: _paths(
            "spec.predictor", "spec.predictor.workerSpec", "spec.transformer", "spec.explainer"
        ),
        TRAIN_JOB: _paths("spec.trainer"),
        **dict.fromkeys(
            TRAINING_RUNTIMES, _paths("spec.template.spec.replicatedJobs[*].template.spec.template")
        ),
    }
)

CLUSTER_SCOPED: frozenset[GroupKind] = frozenset({CLUSTER_TRAINING_RUNTIME})
"""Those that belong to no namespace."""

NO_TEMPLATES: TemplatePaths = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TemplateLocation:
    """The place of a pod in an object (empty for a pod itself), and the pod that its controller would create.

    `guessed` means that not all of it is known: the place was found by search, or another object adds to it.
    `moved` maps beginnings of the pod's paths that are elsewhere in the object than below `where`.
    """

    where: str
    raw: object
    guessed: bool = False
    moved: tuple[tuple[str, str], ...] = ()

    def in_object(self, mistake: Mistake) -> Mistake:
        """Return a mistake of the pod, with its place in the object."""
        for before, after in self.moved:
            if mistake.where == before or mistake.where.startswith((f"{before}.", f"{before}[")):
                return replace(mistake, where=f"{after}{mistake.where.removeprefix(before)}")
        return mistake.under(self.where) if self.where else mistake


NOWHERE = TemplateLocation("", None)


@dataclass(frozen=True, slots=True)
class TemplateScan:
    """The pods in an object of any kind.

    `mistakes` are on the way to the pods, `guesses` say what was guessed, pods lack `misplaced` annotations.
    """

    places: tuple[TemplateLocation, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    guesses: tuple[str, ...] = ()
    misplaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod that an object is or creates, and its place; None, with mistakes, if invalid at a guessed one."""

    place: TemplateLocation
    pod: Pod | None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def where(self) -> str:
        """The place in the object, empty for a pod itself."""
        return self.place.where


def paths_of(sort: GroupKind, *, extra: TemplatePaths = NO_TEMPLATES) -> tuple[TemplatePath, ...]:
    """Return the paths to the pods of such objects, `extra` ones last; none for unknown kinds."""
    return tuple(dict.fromkeys((*TEMPLATES.get(sort, ()), *extra.get(sort, ()))))


def scan(raw: Mapping[str, object], sort: GroupKind, *, extra: TemplatePaths = NO_TEMPLATES) -> TemplateScan:
    """Return the pods in an object of this type; never raises. Absent members are not mistakes."""
    workload = Part(raw)
    paths = paths_of(sort, extra=extra)
    places, guesses = _known(workload, sort, paths) if paths else _searched(workload, sort)
    if len(places) > MOST_TEMPLATES:
        workload.wrong(f"has {len(places)} pod templates: numalign supports at most {MOST_TEMPLATES}")
        return TemplateScan(mistakes=tuple(workload.mistakes))
    return TemplateScan(places, tuple(workload.mistakes), guesses, tuple(_astray(raw, sort, places)))


def group_kind(raw: Mapping[str, object]) -> GroupKind:
    """Return the type of an object; raise `BadPod` if it has none."""
    workload = Part(raw)
    kind, version = workload["kind"].required_text(), workload["apiVersion"].required_text()
    workload.raise_mistakes(BadPod)
    return group(version), kind


def pod_templates(scanned: TemplateScan, *, owner: Mapping[str, object]) -> tuple[PodTemplate, ...]:
    """Return the pods of an object; raise `BadPod` with every mistake of all, except at guessed places."""
    above = Part(owner)["metadata"]
    templates = []
    for place in scanned.places:
        pod = Part(place.raw)
        read = pods.template(pod, owner=above)
        mistakes = tuple(map(place.in_object, pod.mistakes))
        templates.append(PodTemplate(place, None if mistakes else read, mistakes))
    sure = (template.mistakes for template in templates if not template.place.guessed)
    # A mistake of the owner is one of each of its pods, and is reported once.
    if wrong := dict.fromkeys((*scanned.mistakes, *above.mistakes, *chain.from_iterable(sure))):
        raise BadPod(wrong)
    return tuple(templates)


def _known(
    workload: Part, sort: GroupKind, paths: Iterable[TemplatePath]
) -> tuple[tuple[TemplateLocation, ...], tuple[str, ...]]:
    """Return the places of an object of a known kind, and why some of them are guesses."""
    locate = _MADE.get(sort, _plain)
    # Beyond the limit no pods are built, which may take a copy of each.
    parts = list(chain.from_iterable(path.found(workload) for path in paths))
    if len(parts) > MOST_TEMPLATES:
        return tuple(_plain(part, workload) for part in parts), ()
    places = tuple(place for part in parts if (place := locate(part, workload)))
    if not places:
        return (), _described_elsewhere(sort)
    guessed = [place.where for place in places if place.guessed]
    if not guessed:
        return places, ()
    if len(guessed) == 1:
        what = f"{guessed[0]} of {_called(sort)} is not the whole pod"
    else:
        what = f"{guessed[0]} and {len(guessed) - 1} more of {_called(sort)} are not the whole pods"
    changed = "TrainJobs change" if sort in TRAINING_RUNTIMES else "its runtime adds"
    return places, (f"{what}: what {changed} is unknown",)


def _plain(part: Part, _whole: Part) -> TemplateLocation:
    return TemplateLocation(part.where, part.value)


def _of_revision(part: Part, _whole: Part) -> TemplateLocation:
    # Containers need no name in a Knative revision, because Knative names them.
    return TemplateLocation(part.where, _with_names(part.value))


def _of_task(part: Part, _whole: Part) -> TemplateLocation:
    """Return the place of a Volcano task, whose topology policy replaces the annotation of its pods.

    Restates createJobPod of volcano pkg/controllers/job/job_controller_util.go.
    """
    template, policy = part.value, part.parent["topologyPolicy"].one_of(Policy)
    if policy and isinstance(template, dict):
        metadata = template.get("metadata") or {}
        own = metadata.get("annotations") or {} if isinstance(metadata, dict) else None
        if isinstance(own, dict):
            annotations = {**own, intent.VOLCANO_POLICY: str(policy)}
            template = {**template, "metadata": {**metadata, "annotations": annotations}}
    return TemplateLocation(part.where, template)


def _of_component(part: Part, service: Part) -> TemplateLocation | None:
    """Return the place of a component of an InferenceService: a pod spec, plus a container for a model.

    The service's annotations are passed on to the pods, overridden by those of the component; for a model the
    serving runtime defines the rest (kserve pkg/controller/v1beta1/inferenceservice/components/predictor.go).
    """
    model = next((value for name in _MODELS if isinstance(value := part[name].value, dict)), None)
    listed = part["containers"].value
    if model is None and not isinstance(listed, list):
        return None
    spec = {**part.value} if isinstance(part.value, dict) else {}
    if model is not None:
        resources = {"resources": model["resources"]} if "resources" in model else {}
        spec["containers"] = [*inner_list(listed), {"name": "kserve-container", **resources}]
    # A worker has the annotations of its predictor.
    levels = (service["metadata"].value, part.parent.value, part.value)
    annotations = reduce(or_, (_fields(level, "annotations") for level in levels))
    raw = _with_names({"metadata": {"annotations": annotations}, "spec": spec})
    moved = (("metadata.annotations", "metadata.annotations"), ("spec", part.where))
    return TemplateLocation(part.where, raw, guessed=model is not None, moved=moved)


# The frameworks are the older form of `model`; each is a container with fewer fields.
_MODELS = (
    "model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow",
    "triton", "xgboost",
)  # fmt: skip


def _of_clique(part: Part, whole: Part) -> TemplateLocation | None:
    """Return the place of the pods of a Grove clique, which have its annotations.

    A clique that starts after others gets an init container that requests nothing, so its pods are not
    Guaranteed (grove operator/internal/controller/podclique/components/pod).
    """
    spec, clique = part["podSpec"], part.parent["metadata"] if part.parent is whole else part.parent
    if not isinstance(spec.value, dict):
        return None
    startup = inner(whole.value, "spec", "template", "cliqueStartupType")
    later = startup == "CliqueStartupTypeInOrder" and part.where != "spec.template.cliques[0].spec"
    more = {}
    if later or inner(part.value, "startsAfter"):
        more = {"initContainers": [*inner_list(spec.value, "initContainers"), {"name": "grove-initc"}]}
    raw = {"metadata": {"annotations": _fields(clique.value, "annotations")}, "spec": {**spec.value, **more}}
    moved = (("metadata.annotations", clique["annotations"].where), ("spec", spec.where))
    return TemplateLocation(spec.where, raw, moved=moved)


def _of_step(part: Part, _whole: Part) -> TemplateLocation | None:
    """Return the place of the pod of a template in an Argo workflow; None if it runs no containers.

    Argo adds a container that waits for the others and requests nothing by default, so the pod is not
    Guaranteed (argo-workflows workflow/controller/workflowpod.go).
    """
    step, workflow = part.value, part.parent.parent.value
    main = next((key for key in ("container", "script") if isinstance(inner(step, key), dict)), None)
    beside = "sidecars" if main else "containerSet.containers"
    containers = inner_list(step if main else inner(step, "containerSet"), beside.rpartition(".")[2])
    places = [f"{beside}[{at}]" for at in range(len(containers))]
    if main:
        containers, places = [{**_fields(step, main), "name": "main"}, *containers], [main, *places]
    if not containers:
        return None
    annotations = {**_fields(workflow, "podMetadata", "annotations"), **_annotations(step)}
    spec = {
        # Each template can override these.
        **{key: inner(step, key) or inner(workflow, key) for key in _PLACING},
        "initContainers": inner(step, "initContainers"),
        "containers": [*containers, {"name": "wait"}],
    }
    moved = [(f"spec.containers[{at}]", f"{part.where}.{place}") for at, place in enumerate(places)]
    raw = {"metadata": {"annotations": annotations}, "spec": spec}
    return TemplateLocation(part.where, raw, guessed=True, moved=(*moved, ("spec", part.where)))


def _of_training_runtime(part: Part, _whole: Part) -> TemplateLocation:
    # Each TrainJob may change it.
    return TemplateLocation(part.where, part.value, guessed=True)


def _of_train_job(part: Part, job: Part) -> TemplateLocation | None:
    """Return the place of the training nodes of a TrainJob; None if it leaves their resources to its runtime.

    The runtime has the rest of the pod, which may tolerate any taint (newRuntimeInfo and mergeRuntimePatches
    of trainer pkg/runtime/core/trainingruntime.go).
    """
    resources = part["resourcesPerNode"]
    if not isinstance(resources.value, dict):
        return None
    patches = _node_patches(job)
    raw = {
        "metadata": {"annotations": _merged(patches, "metadata", "annotations")},
        "spec": {
            "nodeSelector": _merged(patches, "spec", "nodeSelector"),
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": _NODE, "resources": resources.value}],
        },
    }
    moved = (
        ("metadata.annotations", _PATCHED_ANNOTATIONS),
        ("spec.containers[0].resources", resources.where),
    )
    return TemplateLocation(part.where, raw, guessed=True, moved=moved)


_NODE = "node"
"""The job of the training nodes in the runtimes of Kubeflow Trainer, and their container."""

_PATCHES = TemplatePath.read("spec.runtimePatches[*].trainingRuntimeSpec.template.spec.replicatedJobs[*]")
_OVERRIDES = TemplatePath.read("spec.podTemplateOverrides[*]")
_PATCHED_ANNOTATIONS = f"{_PATCHES}.template.spec.template.metadata.annotations"


def _node_patches(job: Part) -> list[object]:
    """Return what a TrainJob changes in the pod template of its nodes; Trainer 2.1 called it overrides."""
    overrides = (override.value for override in _OVERRIDES.found(job))
    return [
        *(
            patch["template"]["spec"]["template"].value
            for patch in _PATCHES.found(job)
            if patch["name"].value == _NODE
        ),
        *(each for each in overrides if {"name": _NODE} in inner_list(each, "targetJobs")),
    ]


def _merged(values: Iterable[object], *path: str) -> dict[str, Any]:
    """Return the fields at a path of each value in one, later ones first."""
    # Copying what is merged at each of ten thousand patches would take too long.
    return dict(chain.from_iterable(_fields(value, *path).items() for value in values))


_MADE: Mapping[GroupKind, Callable[[Part, Part], TemplateLocation | None]] = MappingProxyType(
    {
        VOLCANO_JOB: _of_task,
        INFERENCE_SERVICE: _of_component,
        POD_CLIQUE: _of_clique,
        ("grove.io", "PodCliqueSet"): _of_clique,
        ("argoproj.io", "CronWorkflow"): _of_step,
        ("argoproj.io", "Workflow"): _of_step,
        ("argoproj.io", "WorkflowTemplate"): _of_step,
        ("serving.knative.dev", "Configuration"): _of_revision,
        ("serving.knative.dev", "Service"): _of_revision,
        TRAIN_JOB: _of_train_job,
        **dict.fromkeys(TRAINING_RUNTIMES, _of_training_runtime),
    }
)
"""The types whose controllers do not create pods of the template as written."""


def _with_names(template: object) -> object:
    """Return a template whose containers all have names; an invalid or too long one is unchanged."""
    spec = inner(template, "spec")
    if not isinstance(template, dict) or not isinstance(spec, dict):
        return template
    named = {
        key: [
            {"name": f"{key}-{number}", **container} if isinstance(container, dict) else container
            for number, container in enumerate(spec[key])
        ]
        for key in ("initContainers", "containers")
        if isinstance(spec.get(key), list) and len(spec[key]) <= pods.MOST_CONTAINERS
    }
    return {**template, "spec": {**spec, **named}}


_OWN = frozenset({"apiVersion", "kind", "metadata", "status"})


def _searched(workload: Part, sort: GroupKind) -> tuple[tuple[TemplateLocation, ...], tuple[str, ...]]:
    places, cut_short, annotated = _search(workload)
    read = tuple(places[:MOST_TEMPLATES])
    guesses = []
    if read:
        where = ", ".join(place.where for place in read[:_MOST_NAMED])
        more = f" and {len(read) - _MOST_NAMED} more places" if len(read) > _MOST_NAMED else ""
        guesses.append(f"{_called(sort)} is an unknown kind: found a pod template at {where}{more}")
    if cut_short or len(places) > MOST_TEMPLATES:
        too_much = "too large or too deeply nested to search completely"
        guesses.append(f"{_called(sort)} is an unknown kind, {too_much}")
    if elsewhere := _described_elsewhere(sort):
        guesses += elsewhere
    elif annotated and not read:
        guesses.append(f"{_called(sort)} is an unknown kind: found no pod template for {annotated}")
    return read, tuple(guesses)


def _search(workload: Part) -> tuple[list[TemplateLocation], bool, str]:
    """Return the pods in an object, whether it was too large for all, and where annotations without one are.

    It is searched from the outside in, each value once, up to a limit. A pod template is an object whose
    `spec` is the spec of a pod; the spec of a pod is an object with a list `containers` of objects, at least
    one of which has an image or resources. Objects that embed the spec of their pods without a template have
    it elsewhere than in a `spec` of its own. Neither is searched inside.
    """
    places: list[TemplateLocation] = []
    left, cut_short, annotated = MOST_SEARCHED, False, ""
    waiting = deque((part, 1) for part in _inside(workload) if part.where not in _OWN)
    # One more than the limit shows that there are others, which are not refused either.
    while waiting and len(places) <= MOST_TEMPLATES:
        part, depth = waiting.popleft()
        if _is_pod_spec(inner(part.value, "spec")):
            places.append(TemplateLocation(part.where, _with_names(part.value), guessed=True))
        elif _is_pod_spec(part.value):
            raw = _with_names({"spec": part.value})
            places.append(TemplateLocation(part.where, raw, guessed=True, moved=(("spec", part.where),)))
        else:
            if not annotated and any(map(_for_pods, _fields(part.value, "annotations"))):
                annotated = part["annotations"].where
            size = len(part.value) if isinstance(part.value, list | dict) else 0
            left -= size
            if size and (depth >= _MOST_STEPS or left < 0):
                cut_short = True
            elif size:
                waiting.extend((value, depth + 1) for value in _inside(part))
    return places, cut_short, annotated


def _inside(part: Part) -> Iterator[Part]:
    """Return the lists and objects in a list, or in an object if they have names."""
    values: Iterable[tuple[Any, object]] = ()
    if isinstance(part.value, list):
        values = enumerate(part.value)
    elif isinstance(part.value, dict):
        values = ((key, value) for key, value in part.value.items() if isinstance(key, str))
    return (Part(value, key, part) for key, value in values if isinstance(value, list | dict))


def _is_pod_spec(value: object) -> bool:
    # Only the first containers are read.
    first = inner_list(value, "containers")[: pods.MOST_CONTAINERS]
    objects = [container for container in first if isinstance(container, dict)]
    return len(objects) == len(first) and any(
        isinstance(container.get("image"), str) or isinstance(container.get("resources"), dict)
        for container in objects
    )


_COMPUTED: Mapping[str, tuple[str, str]] = {
    "apps.nvidia.com": ("NIMPipeline NIMService", "the NIM operator computes them"),
    "flink.apache.org": ("FlinkDeployment", "Flink computes them from jobManager and taskManager"),
    "kaito.sh": ("InferenceSet RAGEngine Workspace", "KAITO computes them from the model"),
    "kubevirt.io": (
        "VirtualMachine VirtualMachineInstance VirtualMachineInstanceReplicaSet",
        "KubeVirt computes what virt-launcher requests from spec.domain",
    ),
    "nvidia.com": ("DynamoComponentDeployment DynamoGraphDeployment", "Dynamo computes them from services"),
    "pool.kubevirt.io": ("VirtualMachinePool", "KubeVirt computes what virt-launcher requests"),
    "serving.kserve.io": ("InferenceGraph LLMInferenceService", "KServe completes them"),
    "sparkoperator.k8s.io": ("ScheduledSparkApplication SparkApplication", "Spark computes them"),
    "tekton.dev": ("PipelineRun TaskRun", "Tekton computes them from the steps of tasks"),
    "trainer.kubeflow.org": ("TrainJob", "the runtime that it names describes them"),
}

_ELSEWHERE: Mapping[GroupKind, str] = MappingProxyType(
    {(group_name, kind): why for group_name, (kinds, why) in _COMPUTED.items() for kind in kinds.split()}
)
"""Types whose pods cannot be read from the object, or not always, and why."""


def _described_elsewhere(sort: GroupKind) -> tuple[str, ...]:
    if why := _ELSEWHERE.get(sort):
        return (f"the pods of a {_called(sort)} cannot be read from it and were not checked: {why}",)
    return ()


_HANDING_ON = frozenset({POD, INFERENCE_SERVICE, POD_CLIQUE})
"""Types whose own annotations are those of their pods."""


def _astray(
    raw: Mapping[str, object], sort: GroupKind, places: tuple[TemplateLocation, ...]
) -> Iterator[str]:
    """Yield annotations for pods that are on the object but not on one of its templates."""
    if sort in _HANDING_ON:
        return
    if sort == TRAIN_JOB:
        # Those of the TrainJob itself, and those that Trainer before 2.2 passes on to its JobSet alone.
        patched = _merged(_node_patches(Part(raw)), "metadata", "annotations")
        for above in ("metadata", "spec"):
            written = _fields(raw, above, "annotations")
            for key in nsmallest(_MOST_NAMED, filter(_for_pods, written.keys() - patched.keys())):
                place = f"put it on {_PATCHED_ANNOTATIONS}, or on the template of its runtime"
                yield f"{above}.annotations[{key[:_LONGEST_KEY]}] has no effect on a TrainJob: {place}"
        return
    for key in nsmallest(_MOST_NAMED, filter(_for_pods, _annotations(raw))):
        lacking = next((place for place in places if key not in _annotations(place.raw)), None)
        if lacking is None:
            continue
        why = f"may have no effect: it is unknown whether a {sort[1]} passes it on to its pods"
        if sort in TEMPLATES:
            right = lacking.in_object(Mistake("metadata.annotations", ""))
            why = f"has no effect on a {sort[1]}: put it on {right.where}"
        yield f"metadata.annotations[{key[:_LONGEST_KEY]}] {why}"


def _for_pods(key: object) -> bool:
    return isinstance(key, str) and (key.startswith(intent.PREFIX) or key == intent.VOLCANO_POLICY)


def _annotations(value: object) -> Mapping[str, str]:
    return _fields(value, "metadata", "annotations")


def _fields(value: object, *steps: str) -> dict[str, Any]:
    fields = inner(value, *steps)
    return fields if isinstance(fields, dict) else {}


def _called(sort: GroupKind) -> str:
    return ".".join(filter(None, reversed(sort)))
