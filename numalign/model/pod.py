"""
The facts of a pod that the rules read, and its QoS class.

The API server sets what a manifest leaves out (a limit without a request is also the request), but a local
manifest has no such defaults yet. `Container.defaulted` and `Pod.defaulted` restate that step, so the rules
see the same pod before and after it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from numalign.model.resources import CPU, EMPTY, MEMORY, Kind, Resources, kind


class Qos(StrEnum):
    """The three classes of `status.qosClass`."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Role(StrEnum):
    """When a container runs: before the others, beside them from then on, or as one of them."""

    INIT = "init container"
    SIDECAR = "sidecar"
    APP = "container"


@dataclass(frozen=True, slots=True)
class Container:
    """One container with its requests and limits."""

    name: str
    role: Role = Role.APP
    requests: Resources = EMPTY
    limits: Resources = EMPTY

    @property
    def guaranteed(self) -> bool:
        """Whether its own limits equal its requests (IsContainerEquivalentQOSGuaranteed)."""
        return all(
            self.requests.get(name, 0) > 0 and self.requests.get(name) == self.limits.get(name)
            for name in (CPU, MEMORY)
        )

    def defaulted(self) -> "Container":
        """Return the container with a request for each limit that has none, as the API server sets it."""
        return replace(self, requests=Resources({**self.limits, **self.requests}))


LIMITS_PODS, OMITS_ZERO_LIMITS = 37, 38
"""The minor versions from which the API server sets pod-level limits, and takes a limit of zero for none."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. `containers` are in the kubelet's order: init containers and sidecars, then apps.

    `pod_requests` and `pod_limits` are the pod-level resources of `spec.resources`, None if unset. `overhead`
    is what the RuntimeClass adds on the node as a whole.
    """

    name: str
    namespace: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    pod_requests: Resources | None = None
    pod_limits: Resources | None = None
    overhead: Resources = EMPTY

    @property
    def has_pod_level_resources(self) -> bool:
        """Whether `spec.resources` names an amount (kubelet: IsPodLevelResourcesSet)."""
        return bool(self.pod_requests or self.pod_limits)

    def defaulted(self) -> "Pod":
        """Return the pod as the API server stores it (k8s.io/kubernetes pkg/apis/core/v1/defaults.go)."""
        containers = tuple(container.defaulted() for container in self.containers)
        if not self.has_pod_level_resources:
            return replace(self, containers=containers)
        return replace(self, containers=containers, pod_requests=_pod_requests(self, containers))

    def stored(self, minor: int) -> "Pod":
        """Return the pod as an API server of this minor version stores it.

        Since 1.37 it sets pod-level limits and hugepages after mutating webhooks (DefaultPodLevelResources of
        pkg/api/pod/util.go): limits of what every container limits, since 1.38 above zero.
        """
        if minor < LIMITS_PODS or not self.has_pod_level_resources:
            return self.defaulted()
        limits = peak((container.role, container.limits) for container in self.containers)
        asked, limited = self.pod_requests or EMPTY, self.pod_limits or EMPTY
        huge = {name: limits[name] for name in limits if name != MEMORY and kind(name) is Kind.MEMORY}
        pages = {name: size for name, size in huge.items() if name not in asked}
        full = replace(self, pod_limits=Resources({**pages, **limited})).defaulted()
        least = 1 if minor >= OMITS_ZERO_LIMITS else 0
        everywhere = [
            name
            for name in full.pod_requests or ()
            if kind(name) in (Kind.CPU, Kind.MEMORY)
            and all(one.limits.get(name, -1) >= least for one in self.containers)
        ]
        raised = {name: max(limits[name], (full.pod_requests or EMPTY)[name]) for name in everywhere}
        return replace(full, pod_limits=Resources({**raised, **(full.pod_limits or {})}))


def qos(pod: Pod) -> Qos:
    """Return the class that `GetPodQOS` computes, from pod-level resources if they are set."""
    if pod.has_pod_level_resources:
        pairs = [(pod.pod_requests or EMPTY, pod.pod_limits or EMPTY)]
    else:
        pairs = [(container.requests, container.limits) for container in pod.containers]
    if not any(_counted(bag) for pair in pairs for bag in pair):
        return Qos.BEST_EFFORT
    limited = all(_counted(limits).keys() == {CPU, MEMORY} for _, limits in pairs)
    equal = _total(requests for requests, _ in pairs) == _total(limits for _, limits in pairs)
    return Qos.GUARANTEED if limited and equal else Qos.BURSTABLE


@dataclass(frozen=True, slots=True)
class QosGap:
    """The first amounts that keep a pod from being Guaranteed; `limit` is 0 if none is set.

    They are those of a container or, if it has no name, of `spec.resources`.
    """

    container: str
    role: Role
    resource: str
    request: int
    limit: int


def qos_gap(pod: Pod) -> QosGap | None:
    """Return the first amounts that keep a pod from being Guaranteed; None if it is.

    The pod is as the API server stores it, so no request is above its limit.
    """
    holders = pod.containers
    if pod.has_pod_level_resources:
        holders = (Container("", Role.APP, pod.pod_requests or EMPTY, pod.pod_limits or EMPTY),)
    for one in holders:
        for name in (CPU, MEMORY):
            request, limit = one.requests.get(name, 0), one.limits.get(name, 0)
            if not limit or request != limit:
                return QosGap(one.name, one.role, name, request, limit)
    return None


def _counted(bag: Resources) -> dict[str, int]:
    """Return the amounts that count for the class: cpu and memory above zero."""
    return {name: bag[name] for name in (CPU, MEMORY) if bag.get(name)}


def _total(bags: Iterable[Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for bag in bags:
        for name, amount in _counted(bag).items():
            total[name] = total.get(name, 0) + amount
    return total


def peak(requests: Iterable[tuple[Role, Resources]]) -> Resources:
    """Return the most that is held at once.

    Init containers run one after another, sidecars from then on, apps together. Restates `PodRequests` of
    k8s.io/component-helpers without overhead, which the kubelet's managers do not count either. The time
    depends on the number of amounts, not of containers.
    """
    beside: dict[str, int] = {}
    together: dict[str, int] = {}
    most: dict[str, int] = {}
    for role, amounts in requests:
        # Sidecars keep running, so only this container's own names can exceed the earlier maximum.
        if role is Role.INIT:
            _raise(most, {name: beside.get(name, 0) + amount for name, amount in amounts.items()})
        elif role is Role.SIDECAR:
            _add(beside, amounts)
            _raise(most, {name: beside[name] for name in amounts})
        else:
            _add(together, amounts)
    _raise(most, {name: beside.get(name, 0) + amount for name, amount in together.items()})
    return Resources(most)


def _add(sums: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0) + amount


def _raise(most: dict[str, int], held: Mapping[str, int]) -> None:
    """Take over amounts that are larger than before, and new names."""
    for name, amount in held.items():
        if amount >= most.get(name, 0):
            most[name] = amount


def _pod_requests(pod: Pod, containers: tuple[Container, ...]) -> Resources:
    """Return the pod-level requests: as written, else the sum of its containers, else the limit."""
    requests = peak((container.role, container.requests) for container in containers)
    shared = {name: requests[name] for name in requests if kind(name) in (Kind.CPU, Kind.MEMORY)}
    return Resources({**(pod.pod_limits or {}), **shared, **(pod.pod_requests or {})})
