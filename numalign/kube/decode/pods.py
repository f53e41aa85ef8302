"""
Pods, as users and controllers write them, decoded into the facts that the rules read.

A pod comes from a manifest, from an API server that has set its defaults, or from a template inside a
workload, and some workloads have several. The same decoder reads them all, and reports every mistake with its
path. Fields that no rule reads are ignored, so newer API servers are supported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from numalign.kube.decode.parts import Part, inner, inner_list, named
from numalign.model import quantity, resources
from numalign.model.errors import BadPod, BadQuantity, Mistake
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import CPU, MEMORY, MILLI, Resources
from numalign.model.spelling import closest_resource

MOST_CONTAINERS = 100
"""The limit per kind. What one container leaves matters to each later one, so time is quadratic."""

MOST_AMOUNTS = 4096
"""The limit in all lists of a pod together. A container requests a handful of resources, so this allows a
hundred containers with twenty requests and twenty limits each; a pod with more is not read."""

_STATUSES = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))
_HUGE_PAGES = "hugepages-"
_PLAIN = (CPU, MEMORY, "ephemeral-storage")
_NATIVE = "kubernetes.io/"
"""The end of the domains of Kubernetes' own resources, which are no extended resources."""

_DOMAIN_PART, _NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_EXTENDED = re.compile(rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN_PART}(\.{_DOMAIN_PART})*/{_NAME}")
"""A domain and a name. A quota puts `requests.` before the domain, so it is shorter than others."""


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
    # All lists count, valid or not.
    holders = (spec.value, *inner_list(spec.value, "initContainers"), *inner_list(spec.value, "containers"))
    bags = [inner(holder, "resources", key) for holder in holders for key in ("requests", "limits")]
    amounts = [inner(spec.value, "overhead"), *bags]
    if (count := sum(len(each) for each in amounts if isinstance(each, dict))) > MOST_AMOUNTS:
        spec.wrong(f"has {count} resource quantities: numalign supports at most {MOST_AMOUNTS}")
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


def admitted(pod: object) -> object:
    """Return the pod as its kubelet admitted it: the same object, unless it was resized since.

    A resize in place changes the spec at once; the allocation follows when the kubelet carries it out, or
    never: one whose CPU or memory manager is static refuses to resize a Guaranteed pod (canResizePod of
    pkg/kubelet/allocation/allocation_manager.go; recorded in tests/kubelet/real/test_resizes.py), which alone
    has exclusive resources, and whose limits are its requests. The admitted amounts are in
    `status.containerStatuses[].allocatedResources`, since Kubernetes 1.33 for every container.
    """
    spec, status = inner(pod, "spec"), inner(pod, "status")
    if not isinstance(pod, dict) or not isinstance(spec, dict) or inner(status, "qosClass") != "Guaranteed":
        return pod
    changed: dict[str, list[object]] = {}
    for key, statuses in _STATUSES:
        listed, reported = spec.get(key), inner(status, statuses)
        if isinstance(listed, list) and isinstance(reported, list):
            amounts = {_name(one): inner(one, "allocatedResources") for one in reported}
            containers = [_as_admitted(one, amounts.get(_name(one))) for one in listed]
            if any(one is not other for one, other in zip(containers, listed, strict=True)):
                changed[key] = containers
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _as_admitted(container: object, amounts: object) -> object:
    """Return the container with the allocated amounts; the API server writes requests and limits alike."""
    resources = inner(container, "resources")
    if not isinstance(container, dict) or not isinstance(resources, dict) or not isinstance(amounts, dict):
        return container
    changed = {}
    for kind in ("requests", "limits"):
        bag = resources.get(kind)
        if isinstance(bag, dict) and any(amounts.get(name, bag[name]) != bag[name] for name in bag):
            changed[kind] = {name: amounts.get(name, amount) for name, amount in bag.items()}
    return {**container, "resources": {**resources, **changed}} if changed else container


def _name(of: object) -> str:
    name = inner(of, "name")
    return name if isinstance(name, str) else ""


def api_mistakes(pod: object, known: AbstractSet[str] = frozenset()) -> tuple[Mistake, ...]:
    """Return what an API server refuses in the resources of a v1 Pod or template that it has not seen yet.

    Restates validateResourceRequirements and validateContainerResourceName of k8s.io/kubernetes
    pkg/apis/core/validation. The webhook checks none of this, because the API server validates a pod before
    it asks. A request above its limit, and an amount that is no quantity, are mistakes of `pod` already.
    `known` are names that may be meant.
    """
    part, names = Part(pod), (*_PLAIN, *sorted(known))
    for key in ("initContainers", "containers"):
        containers = part["spec"][key]
        if isinstance(containers.value, list) and len(containers.value) <= MOST_CONTAINERS:
            for container in containers.objects():
                _check(container["resources"], names)
    return tuple(part.mistakes)


def _check(bag: Part, known: Sequence[str]) -> None:
    requests, limits = dict(bag["requests"].members()), dict(bag["limits"].members())
    for name, part in (*requests.items(), *limits.items()):
        amount = _millis(part)
        if not _is_name(name):
            meant = closest_resource(name, known)
            hint = f'did you mean "{meant}"?' if meant else "write cpu, memory or a name like nvidia.com/gpu"
            part.wrong(f"is not a resource name to the API server; {hint}")
        elif name.startswith(_HUGE_PAGES) and not _is_multiple(amount, name.removeprefix(_HUGE_PAGES)):
            part.wrong(f"{part.value} is not a multiple of the page size")
        elif _is_whole(name) and amount and amount % MILLI:
            part.wrong(f"{part.value} is not a whole number: extended resources have no fractions")
    for name in filter(_is_whole, requests):
        kind = "huge pages" if name.startswith(_HUGE_PAGES) else "extended resources"
        if name not in limits:
            bag["limits"][name].wrong(f"required: {kind} cannot be overcommitted")
        elif _millis(requests[name]) != _millis(limits[name]):
            requests[name].wrong(f"differs from the limit: {kind} cannot be overcommitted")
    names = requests.keys() | limits.keys()
    if any(name.startswith(_HUGE_PAGES) for name in names) and names.isdisjoint((CPU, MEMORY)):
        bag.wrong("huge pages require cpu or memory beside them")


def _is_name(name: str) -> bool:
    if "/" not in name:
        return name in _PLAIN or name.startswith(_HUGE_PAGES)
    return _NATIVE in name or _EXTENDED.fullmatch(name) is not None


def _is_whole(name: str) -> bool:
    """Return whether a resource cannot be overcommitted: huge pages, and resources of other domains."""
    return name.startswith(_HUGE_PAGES) or ("/" in name and _NATIVE not in name)


def _is_multiple(amount: int | None, page: str) -> bool:
    """Return whether an amount in thousandths is a multiple of a page size; None counts as one."""
    try:
        size = quantity.units(page)
    except BadQuantity:
        return False
    return bool(size) and (amount is None or -(-amount // MILLI) % size == 0)


def _millis(part: Part) -> int | None:
    try:
        return quantity.millis(repr(part.value) if isinstance(part.value, float) else part.value)
    except BadQuantity:
        return None
