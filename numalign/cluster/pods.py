"""
Pods as people and controllers write them, made into the facts that the rules read.

A pod comes from a manifest, from an API server that has filled in its defaults, or from a template inside a
workload, and some workloads have several; the same decoder reads them all, and tells every mistake with its
path. What no rule reads is not looked at, so that newer API servers are understood.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from numalign.cluster.parts import Part, group, named
from numalign.rules import resources
from numalign.rules.errors import BadPod, Mistake
from numalign.rules.pod import Container, Pod, Role
from numalign.rules.resources import Resources

MOST_CONTAINERS = 100
"""Of one kind. What one container leaves matters to each after it, so time grows with their square."""

MOST_AMOUNTS = 4096
"""In all lists of a pod together. A container that asks for something asks for a handful, so that this is a
hundred containers of twenty requests and twenty limits each; what has more is not read, however short."""

MOST_TEMPLATES = 100
"""In one object, and entries on the way to them; a job of several roles has a handful."""

_MOST_STEPS, _MOST_WILD = 16, 2
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")
_ELEMENTS, _MEMBERS = "[*]", "*"
_WILD = frozenset({_ELEMENTS, _MEMBERS})


@dataclass(frozen=True, slots=True)
class TemplatePath:
    """The way to the pod templates of an object: `spec.tasks[*].template`, `spec.replicaSpecs.*.template`.

    A step is the name of a member, `[*]` for every element of a list, or `*` for every member of an object.
    """

    steps: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> "TemplatePath":
        """The path that is written; raises `ValueError` for what is none."""
        steps = [
            step
            for part in text.split(".")
            for step in ((part.removesuffix(_ELEMENTS), _ELEMENTS) if part.endswith(_ELEMENTS) else (part,))
        ]
        if wrong := next((step for step in steps if not _is_step(step)), None):
            raise ValueError(f'"{wrong[:64]}" is no step: write names with dots, [*] after a list, or *')
        if "" in steps:
            raise ValueError("a name is missing: write a path like spec.tasks[*].template")
        if len(steps) > _MOST_STEPS:
            raise ValueError(f"has {len(steps)} steps: at most {_MOST_STEPS} are read")
        if (wild := len([step for step in steps if step in _WILD])) > _MOST_WILD:
            raise ValueError(f"has [*] and * {wild} times: at most {_MOST_WILD} are read")
        return cls(tuple(steps))

    def __str__(self) -> str:
        """The path as it is written."""
        return ".".join(self.steps).replace(f".{_ELEMENTS}", _ELEMENTS)

    def found(self, whole: Part) -> Iterator[Part]:
        """Every place in an object that the path leads to and where something stands."""
        parts: Iterable[Part] = (whole,)
        for step in self.steps:
            parts = chain.from_iterable(map(_WALKS.get(step, partial(_member, name=step)), parts))
        return (part for part in parts if part.value is not None)


def _is_step(step: str) -> bool:
    return not step or step in _WILD or bool(_NAME.fullmatch(step))


def _member(part: Part, *, name: str) -> Iterable[Part]:
    return (part[name],)


def _elements(part: Part) -> Iterable[Part]:
    return () if _crowded(part) else part.objects()


def _members(part: Part) -> Iterable[Part]:
    return () if _crowded(part) else (inner for _, inner in part.members())


def _crowded(part: Part) -> bool:
    """Whether there are more entries than anybody means; it is noted as a mistake."""
    value = part.value
    if not isinstance(value, list | dict) or len(value) <= MOST_TEMPLATES:
        return False
    part.wrong(f"has {len(value)} entries: numalign reads at most {MOST_TEMPLATES}")
    return True


_WALKS: Mapping[str, Callable[[Part], Iterable[Part]]] = MappingProxyType(
    {_ELEMENTS: _elements, _MEMBERS: _members}
)

Sort: TypeAlias = tuple[str, str]
"""A sort of objects: API group (empty for the core) and kind."""

Templates: TypeAlias = Mapping[Sort, tuple[TemplatePath, ...]]


def _paths(*texts: str) -> tuple[TemplatePath, ...]:
    return tuple(map(TemplatePath.read, texts))


def _ray(cluster: str) -> tuple[str, str]:
    return f"{cluster}.headGroupSpec.template", f"{cluster}.workerGroupSpecs[*].template"


_SPEC_TEMPLATE = _paths("spec.template")

POD: Sort = ("", "Pod")

# The paths are those of each project's own API types.
TEMPLATES: Templates = MappingProxyType(
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
        ("argoproj.io", "Rollout"): _SPEC_TEMPLATE,
        ("batch.volcano.sh", "Job"): _paths("spec.tasks[*].template"),
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
        ("ray.io", "RayJob"): _paths(*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate"),
        ("ray.io", "RayService"): _paths(*_ray("spec.rayClusterConfig")),
    }
)
"""The sorts of objects that make pods, and where the pods stand in them."""

NO_TEMPLATES: Templates = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod stands in an object (empty for a pod itself), and what stands there."""

    where: str
    raw: object


@dataclass(frozen=True, slots=True)
class Template:
    """A pod that an object is or makes, and where it stands in the object (empty for a pod itself)."""

    where: str
    pod: Pod


def pod(raw: Mapping[str, object]) -> Pod:
    """The pod that a v1 Pod describes; raises `BadPod` with every mistake.

    One still to be named goes by its `generateName`; one without a namespace is in `default`.
    """
    whole = Part(raw)
    read = _pod(whole, owner=Part({}))
    whole.settle(BadPod)
    return read


def paths_of(sort: Sort, *, extra: Templates = NO_TEMPLATES) -> tuple[TemplatePath, ...]:
    """The ways to the pods of such objects, those of `extra` after our own; none for what makes no pods."""
    return tuple(dict.fromkeys((*TEMPLATES.get(sort, ()), *extra.get(sort, ()))))


def places(
    raw: Mapping[str, object], paths: Iterable[TemplatePath]
) -> tuple[tuple[Place, ...], tuple[Mistake, ...]]:
    """What stands at the ends of the paths, and what is wrong on the way; what is absent is no mistake."""
    whole = Part(raw)
    found = [Place(part.where, part.value) for path in paths for part in path.found(whole)]
    if len(found) > MOST_TEMPLATES:
        whole.wrong(f"has {len(found)} pod templates: numalign reads at most {MOST_TEMPLATES}")
        return (), tuple(whole.mistakes)
    return tuple(found), tuple(whole.mistakes)


def pods_of(raw: Mapping[str, object], *, extra: Templates = NO_TEMPLATES) -> tuple[Template, ...]:
    """The pods that an object of any kind is or would make; none for kinds that make none.

    A pod of a workload goes by the workload's name and namespace. Raises `BadPod` with every mistake of all
    of them.
    """
    whole = Part(raw)
    kind, version = whole["kind"].needed_text(), whole["apiVersion"].needed_text()
    whole.settle(BadPod)
    found, wrong = places(raw, paths_of((group(version), kind), extra=extra))
    mistakes = [*wrong]
    made = tuple(_made(place, owner=raw, mistakes=mistakes) for place in found)
    if mistakes:
        # What is wrong with the owner is wrong with each of its pods, and told once.
        raise BadPod(dict.fromkeys(mistakes))
    return made


def _made(place: Place, *, owner: Mapping[str, object], mistakes: list[Mistake]) -> Template:
    """The pod of a template; what is wrong with it goes to the mistakes."""
    whole, above = Part(place.raw), Part(owner)
    read = _pod(whole, owner=above["metadata"])
    mistakes += [mistake.under(place.where) if place.where else mistake for mistake in whole.mistakes]
    mistakes += above.mistakes
    return Template(place.where, read)


def _pod(whole: Part, *, owner: Part) -> Pod:
    metadata, spec = whole["metadata"], whole["spec"].needed()
    level = spec["resources"]
    requests, limits = _asked(level)
    return Pod(
        name=metadata["name"].text() or metadata["generateName"].text() or owner["name"].text(),
        namespace=metadata["namespace"].text() or owner["namespace"].text() or "default",
        annotations=metadata["annotations"].texts(),
        containers=tuple(_containers(spec)),
        pod_requests=requests or None,
        pod_limits=limits or None,
        overhead=spec["overhead"].amounts(),
    )


def _containers(spec: Part) -> Iterator[Container]:
    """In the kubelet's order; their names are told apart across both lists."""
    if spec.value is None:
        return
    for key in ("initContainers", "containers"):
        listed = spec[key].value
        if isinstance(listed, list) and len(listed) > MOST_CONTAINERS:
            spec[key].wrong(f"has {len(listed)} containers: numalign reads at most {MOST_CONTAINERS}")
            return
    if (amounts := _amounts(spec.value)) > MOST_AMOUNTS:
        spec.wrong(
            f"has {amounts} amounts of resources: numalign reads at most {MOST_AMOUNTS}, ask for fewer"
        )
        return
    places: dict[str, Part] = {}
    for part in spec["initContainers"].objects():
        role = Role.SIDECAR if part["restartPolicy"].text() == "Always" else Role.INIT
        yield _container(part, role, places)
    apps = spec["containers"].needed()
    for part in apps.objects():
        yield _container(part, Role.APP, places)
    if apps.value == []:
        apps.wrong("is empty: a pod has at least one container")


def _amounts(spec: object) -> int:
    """How many amounts stand in all resource lists of a pod together, whatever they say."""
    listed = (_inner(spec, key) for key in ("initContainers", "containers"))
    containers = chain.from_iterable(each for each in listed if isinstance(each, list))
    bags = [_inner(holder, "resources") for holder in (spec, *containers)]
    lists = [_inner(spec, "overhead"), *(_inner(bag, key) for bag in bags for key in ("requests", "limits"))]
    return sum(len(each) for each in lists if isinstance(each, dict))


def _inner(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _container(part: Part, role: Role, places: dict[str, Part]) -> Container:
    name = part["name"].needed_text()
    if name and places.setdefault(name, part) is not part:
        part["name"].wrong(f"{named(name)} is the name of {places[name].where} too")
    requests, limits = _asked(part["resources"])
    return Container(name, role, requests, limits)


def _asked(bag: Part) -> tuple[Resources, Resources]:
    """Requests and limits; a request above its limit is a mistake of the request."""
    requests, limits = bag["requests"], bag["limits"]
    asked, most = requests.amounts(), limits.amounts()
    for name, amount in asked.items():
        if amount > most.get(name, amount):
            shown = [resources.render(name, each) for each in (amount, most[name])]
            requests[name].wrong(f"{shown[0]} is above the limit of {shown[1]}")
    return asked, most
