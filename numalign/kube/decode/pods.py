"""
Pods, as users and controllers write them, decoded into the facts that the rules read.

A pod comes from a manifest, from an API server that has set its defaults, or from a template inside a
workload, and some workloads have several. The same decoder reads them all, and reports every mistake with its
path. Fields that no rule reads are ignored, so newer API servers are supported.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from numalign.kube.decode.parts import Part, inner, named
from numalign.model import resources
from numalign.model.errors import BadPod
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import Resources

MOST_CONTAINERS = 100
"""The limit per kind. What one container leaves matters to each later one, so time is quadratic."""

MOST_AMOUNTS = 4096
"""The limit in all lists of a pod together. A container requests a handful of resources, so this allows a
hundred containers with twenty requests and twenty limits each; a pod with more is not read."""


def pod(raw: Mapping[str, object]) -> Pod:
    """Return the pod that a v1 Pod describes; raise `BadPod` with every mistake.

    A pod without a name has its `generateName`; one without a namespace is in `default`.
    """
    part = Part(raw)
    decoded = template(part, owner=Part({}))
    part.raise_mistakes(BadPod)
    return decoded


def template(part: Part, *, owner: Part) -> Pod:
    """Return the pod of a template for the owner with this metadata; mistakes are noted in the parts."""
    metadata, spec = part["metadata"], part["spec"].required()
    level = spec["resources"]
    requests, limits = _resources(level)
    return Pod(
        name=metadata["name"].text() or metadata["generateName"].text() or owner["name"].text(),
        namespace=metadata["namespace"].text() or owner["namespace"].text() or "default",
        annotations=metadata["annotations"].text_map(),
        containers=tuple(_containers(spec)),
        pod_requests=requests or None,
        pod_limits=limits or None,
        overhead=spec["overhead"].amounts(),
    )


def _containers(spec: Part) -> Iterator[Container]:
    """Yield containers in the kubelet's order; their names are unique across both lists."""
    if spec.value is None:
        return
    for key in ("initContainers", "containers"):
        listed = spec[key].value
        if isinstance(listed, list) and len(listed) > MOST_CONTAINERS:
            spec[key].wrong(f"has {len(listed)} containers: numalign supports at most {MOST_CONTAINERS}")
            return
    if (amounts := _amounts(spec.value)) > MOST_AMOUNTS:
        spec.wrong(f"has {amounts} resource quantities: numalign supports at most {MOST_AMOUNTS}")
        return
    places: dict[str, Part] = {}
    for part in spec["initContainers"].objects():
        role = Role.SIDECAR if part["restartPolicy"].text() == "Always" else Role.INIT
        yield _container(part, role, places)
    apps = spec["containers"].required()
    for part in apps.objects():
        yield _container(part, Role.APP, places)
    if apps.value == []:
        apps.wrong("is empty: a pod has at least one container")


def _amounts(spec: object) -> int:
    """Return how many amounts all resource lists of a pod have together, valid or not."""
    members = (inner(spec, key) for key in ("initContainers", "containers"))
    containers = chain.from_iterable(member for member in members if isinstance(member, list))
    bags = [inner(holder, "resources") for holder in (spec, *containers)]
    lists = [inner(spec, "overhead"), *(inner(bag, key) for bag in bags for key in ("requests", "limits"))]
    return sum(len(amounts) for amounts in lists if isinstance(amounts, dict))


def _container(part: Part, role: Role, places: dict[str, Part]) -> Container:
    name = part["name"].required_text()
    if name and places.setdefault(name, part) is not part:
        part["name"].wrong(f"{named(name)} is also the name of {places[name].where}")
    requests, limits = _resources(part["resources"])
    return Container(name, role, requests, limits)


def _resources(bag: Part) -> tuple[Resources, Resources]:
    """Return requests and limits; a request above its limit is a mistake of the request."""
    requests, limits = bag["requests"], bag["limits"]
    requested, most = requests.amounts(), limits.amounts()
    for name, amount in requested.items():
        if amount > most.get(name, amount):
            shown, limit = (resources.render(name, number) for number in (amount, most[name]))
            requests[name].wrong(f"{shown} is above the limit of {limit}")
    return requested, most
