"""
What a pod requires of the kubelet's managers: one step per container, and one for the pod as a whole.

A container gets exclusive CPUs only in a Guaranteed pod, and only if it requests a whole number of them.
Memory counts in every Guaranteed pod, devices count in every pod. Resources that a container requests and no
kubelet would align are kept by name (`loose`), because the owner of an intent should be notified of them.

Restates guaranteedCPUs and podGuaranteedCPUs of cpumanager/policy_static.go, getRequestedResources of
memorymanager/policy_static.go, and the limits that the device manager reads.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from numalign.model.pod import Container, Pod, Qos, QosGap, Role, peak, qos, qos_gap
from numalign.model.resources import CPU, EMPTY, MILLI, Kind, Resources, kind
from numalign.model.sharing import shared

WHOLE_POD = ""
"""The container name of the step for the pod as a whole."""

MOST_SHARED = 8
"""The limit of names in amounts that are stored once for all containers with the same ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """One allocation request to the kubelet's managers.

    `cpu` is in millicores of exclusive CPUs. `memory` holds memory and hugepages in bytes. `devices` holds
    the pieces of everything else, zeros included: naming a device is enough to get hints for it. Amounts in
    `loose` are requested, but in a way that no manager pins; of the whole pod, those of CPUs and memory that
    are held until it ends. The memory manager handles a `managed` step even if it requests no memory.
    """

    container: str
    role: Role
    cpu: int = 0
    memory: Resources = EMPTY
    devices: Resources = EMPTY
    loose: Resources = EMPTY
    managed: bool = False
    requests: Resources = field(init=False, compare=False)
    """Amounts by name: those of `exclusive`, and devices with an amount above zero."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", _once(Resources({**self.exclusive, **self.devices.positive()})))

    @property
    def exclusive(self) -> Resources:
        """Amounts by name: millicores of exclusive CPUs, if any, and bytes of memory and hugepages."""
        return Resources({CPU: self.cpu, **self.memory} if self.cpu else self.memory)


@dataclass(frozen=True, slots=True)
class PodLevel:
    """What a pod with pod-level resources requires of managers that support them.

    In `steps` only containers are pinned whose own limits equal their requests; `whole` is the pod-level
    request. For the resources in `crowded`, the pinned containers leave nothing for the others.
    """

    steps: tuple[Step, ...]
    whole: Step
    crowded: frozenset[str]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod requires of a node: `steps` in the kubelet's order, `whole` in pod scope.

    `total` is what the scheduler reserves on the node as a whole, requests and `overhead`. `pod_level` is set
    if the pod has pod-level resources; by default the CPU and memory managers ignore such pods. Of the
    devices `by_dra`, only those count on a node that its device plugins serve, see `by_plugins`. `gap` is why
    the pod is not Guaranteed. `init_memory` is the memory under names that no app container requests, which
    counts in pod scope from 1.38 on, see `with_init_memory`.
    """

    qos: Qos
    steps: tuple[Step, ...]
    whole: Step
    total: Resources
    pod_level: PodLevel | None = None
    by_dra: frozenset[str] = frozenset()
    overhead: Resources = EMPTY
    gap: QosGap | None = None
    init_memory: Resources = EMPTY
    kinds: frozenset[Kind] = field(init=False, compare=False)
    """The kinds of all resources in the `requests` of its steps."""

    def __post_init__(self) -> None:
        kinds = frozenset(kind(name) for step in self.steps for name in step.requests)
        object.__setattr__(self, "kinds", kinds)

    @property
    def exclusive_cpus(self) -> int:
        """The most whole CPUs that a static CPU manager pins for it at once."""
        return self.whole.cpu // MILLI

    @property
    def alignable(self) -> bool:
        """Whether any kubelet could pin a resource for this pod."""
        return bool(self.kinds)


def of(pod: Pod) -> Demand:
    """Return the demand of a pod, whether or not the API server has filled in its defaults."""
    full = pod.defaulted()
    quality = qos(full)
    # Unless PodLevelResourceManagers is on, the managers do not pin pods with pod-level resources.
    whole_is_stated = full.has_pod_level_resources
    pinned = quality is Qos.GUARANTEED and not whole_is_stated
    steps = tuple(_step(container, pinned=pinned, managed=pinned) for container in full.containers)
    level = _pod_level(full, guaranteed=quality is Qos.GUARANTEED) if whole_is_stated else None
    whole = _whole(steps)
    if level:
        whole = replace(whole, loose=_shareable(full.pod_requests or EMPTY).most(whole.loose))
    return Demand(
        quality,
        steps,
        whole,
        _total(full),
        level,
        overhead=full.overhead.positive(),
        gap=qos_gap(full),
        init_memory=_less(_peak(steps, _memory), _app_names(steps)),
    )


def with_request(demand: Demand, container: str, resource: str, amount: int) -> Demand:
    """Return the demand with another amount of one resource, in one container or in the whole pod.

    For `WHOLE_POD` the result is that of a pod with a single container, which requests all of it.
    """
    alone = container == WHOLE_POD
    before = (demand.whole,) if alone else demand.steps
    steps = tuple(_asking(step, resource, amount) if step.container == container else step for step in before)
    saved = sum(step.requests.get(resource, 0) for step in before) - sum(
        step.requests.get(resource, 0) for step in steps
    )
    total = Resources({**demand.total, resource: demand.total.get(resource, 0) - saved})
    return replace(demand, steps=steps, whole=_whole(steps), total=total)


def without(demand: Demand, devices: AbstractSet[str]) -> Demand:
    """Return the demand without these devices and with none `by_dra`; itself if it names none of them."""
    if not any(name in devices for name in (*demand.total, *demand.whole.devices)):
        return demand
    steps = tuple(replace(step, devices=_less(step.devices, devices)) for step in demand.steps)
    level = demand.pod_level and PodLevel(
        tuple(replace(step, devices=_less(step.devices, devices)) for step in demand.pod_level.steps),
        replace(demand.pod_level.whole, devices=_less(demand.pod_level.whole.devices, devices)),
        demand.pod_level.crowded,
    )
    whole = replace(demand.whole, devices=_less(demand.whole.devices, devices))
    total = _less(demand.total, devices)
    return replace(demand, steps=steps, whole=whole, total=total, pod_level=level, by_dra=frozenset())


def unaligned(demand: Demand, devices: AbstractSet[str]) -> Demand:
    """Return the demand in which these devices count only for the node as a whole: no plugin serves them."""
    less = without(demand, devices)
    return less if less is demand else replace(less, total=demand.total, by_dra=demand.by_dra - devices)


def by_plugins(demand: Demand, listed: AbstractSet[str]) -> Demand:
    """Return the demand on a node whose zones list these devices, without the others `by_dra`.

    A scheduler leaves an extended resource to DRA on a node without any of it from a device plugin
    (shouldDelegateResourceToDRA of pkg/scheduler/framework/plugins/noderesources/fit.go, Kubernetes 1.34).
    """
    away = demand.by_dra - listed
    return without(demand, away) if away else demand


def with_init_memory(demand: Demand) -> Demand:
    """Return the demand in which memory counts in pod scope whichever containers request it.

    Restates getPodRequestedResources of memorymanager/policy_static.go since 1.38.
    """
    if not demand.init_memory:
        return demand
    whole = replace(demand.whole, memory=_once(Resources({**demand.whole.memory, **demand.init_memory})))
    return replace(demand, whole=whole, init_memory=EMPTY)


def _less(amounts: Resources, names: AbstractSet[str]) -> Resources:
    return Resources({name: amount for name, amount in amounts.items() if name not in names})


def _asking(step: Step, resource: str, amount: int) -> Step:
    if resource == CPU:
        return replace(step, cpu=amount // MILLI * MILLI)
    if kind(resource) is Kind.MEMORY:
        return replace(step, memory=Resources({**step.memory, resource: amount}))
    return replace(step, devices=Resources({**step.devices, resource: amount}))


def _step(container: Container, *, pinned: bool, managed: bool) -> Step:
    asked = container.requests.positive()
    cpu = asked.get(CPU, 0) if pinned and asked.get(CPU, 0) % MILLI == 0 else 0
    memory = _only(Kind.MEMORY, asked) if pinned else EMPTY
    devices = _only(Kind.DEVICE, container.limits)
    kept = {*memory, *devices, *([CPU] if cpu else [])}
    loose = {
        name: amount for name, amount in asked.items() if name not in kept and kind(name) is not Kind.NODE
    }
    return Step(container.name, container.role, cpu, memory, devices, _once(Resources(loose)), managed)


def _pod_level(pod: Pod, *, guaranteed: bool) -> PodLevel:
    """Restate what the managers of Kubernetes 1.36 read with the feature gate PodLevelResourceManagers on."""
    steps = tuple(
        _step(container, pinned=guaranteed and container.guaranteed, managed=guaranteed)
        for container in pod.containers
    )
    stated = _shareable(pod.pod_requests or EMPTY)
    pinned = stated if guaranteed else EMPTY
    cpu = pinned.get(CPU, 0) if pinned.get(CPU, 0) % MILLI == 0 else 0
    memory = _only(Kind.MEMORY, pinned)
    loose = _less(stated, {*memory, *([CPU] if cpu else [])})
    whole = replace(_whole(steps), cpu=cpu, memory=memory, loose=loose, managed=guaranteed)
    crowded = _crowded(steps, _cpus, _cpus(whole)) | _crowded(steps, _memory, whole.memory)
    return PodLevel(steps, whole, crowded)


def _crowded(
    steps: tuple[Step, ...], pinned: Callable[[Step], Resources], stated: Resources
) -> frozenset[str]:
    """Return the resources of which pinned containers leave nothing for shared ones.

    Restates validatePodScopeResources. What is held beside an init container only grows, so the last shared
    container has the least. The time depends on the number of amounts, not of containers.
    """
    sharing = [at for at, step in enumerate(steps) if not pinned(step)]
    if not sharing:
        return frozenset()
    last = sharing[-1] if all(steps[at].role is Role.INIT for at in sharing) else len(steps)
    beside = Counter[str]()
    for step in steps[:last]:
        if step.role is not Role.INIT:
            beside.update(pinned(step))
    return frozenset(name for name, amount in stated.items() if beside[name] >= amount)


def _cpus(step: Step) -> Resources:
    return Resources({CPU: step.cpu}) if step.cpu else EMPTY


def _memory(step: Step) -> Resources:
    return step.memory


def _whole(steps: tuple[Step, ...]) -> Step:
    """Return the pod-scope request up to 1.37: memory counts under names that an app container requests."""
    apps = _app_names(steps)
    memory = _peak(steps, _memory)
    return Step(
        container=WHOLE_POD,
        role=Role.APP,
        cpu=_peak(steps, _cpus).get(CPU, 0),
        memory=Resources({name: amount for name, amount in memory.items() if name in apps}),
        devices=_peak(steps, lambda step: step.devices),
        loose=shared_by(steps),
    )


def _app_names(steps: tuple[Step, ...]) -> frozenset[str]:
    return frozenset(name for step in steps if step.role is Role.APP for name in step.memory)


def shared_by(steps: Iterable[Step]) -> Resources:
    """Return the CPUs and memory that these steps share with others of the node until the pod ends."""
    return _peak([step for step in steps if step.role is not Role.INIT], lambda step: _shareable(step.loose))


def _peak(steps: Iterable[Step], amounts: Callable[[Step], Resources]) -> Resources:
    return peak((step.role, amounts(step)) for step in steps)


def _total(pod: Pod) -> Resources:
    asked = peak((container.role, container.requests) for container in pod.containers)
    return Resources({**asked, **(pod.pod_requests or {})}).plus(pod.overhead).positive()


def _shareable(amounts: Resources) -> Resources:
    """Return the amounts that containers without exclusive ones share on the node."""
    return Resources({name: each for name, each in amounts.items() if each and kind(name) in _SHAREABLE})


_SHAREABLE = frozenset({Kind.CPU, Kind.MEMORY})


def _only(wanted: Kind, amounts: Resources) -> Resources:
    return _once(Resources({name: amount for name, amount in amounts.items() if kind(name) is wanted}))


def _once(amounts: Resources) -> Resources:
    """Return the amounts, stored once if they are as few as those of a usual container."""
    return shared(amounts) if len(amounts) <= MOST_SHARED else amounts
