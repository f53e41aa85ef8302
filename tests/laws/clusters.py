"""
Whole clusters as the API server has them, what a platform team says of them, and pods that come.

Everything is a document, as three programs read it: nodes in health and ill, without topology, cordoned,
tainted, and topologies that their exporter left behind; shapes that were here, and shapes that are declared;
namespaces, a policy file; pods that ask rightly and wrongly. Built with `pick`, as in `fleets`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numalign.model.node import Node, Zone, node_class
from numalign.model.resources import Resources, render
from tests.laws.fleets import NOWHERE, OFTEN, SELDOM, SOMETIMES, Pick
from tests.worlds import manifests
from tests.worlds.manifests import labelled
from tests.worlds.notation import GPU, NIC
from tests.worlds.notation import node as made_of

Raw = dict[str, Any]
DEVICES = frozenset({GPU, NIC})

NAMESPACES = ("team", "team", "team", "team", "strict", "quiet", "nobody-made-this")
USERS = ("jane", "system:serviceaccount:kube-system:job-controller")

KINDS = tuple(
    made_of(*[zone] * count, policy=policy, scope=scope)
    for count, zone, policy, scope in (
        (2, "cpu=16 mem=64Gi gpu=4", "single-numa-node", "container"),
        (2, "cpu=16 mem=64Gi gpu=4", "single-numa-node", "pod"),
        (2, "cpu=8 mem=32Gi gpu=1", "single-numa-node", "container"),
        (2, "cpu=8 mem=32Gi", "restricted", "container"),
        (4, "cpu=8 mem=16Gi gpu=2 nic=1", "restricted", "pod"),
        (1, "cpu=32 mem=128Gi gpu=8", "none", "container"),
        (2, "cpu=16 mem=64Gi gpu=4", "best-effort", "container"),
    )
)
"""Machines that were bought together: what each zone has, and how their kubelets align."""

_SERVED: list[tuple[str, ...]] = [(), (), (GPU,), (GPU, NIC), (NOWHERE,), ("example.com/unasked",)]
"""What DRA serves."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster with `pods`, and a pod that comes to it.

    `before` is the cluster as it was, whose shapes are remembered, and `declared` one of which every node
    could come. `policy` is the policy file, `user` creates the pod in `namespace`.
    """

    items: Sequence[Raw]
    namespace: str
    pod: Raw
    pods: Sequence[Raw] = ()
    before: Sequence[Raw] = ()
    declared: Sequence[Raw] = ()
    policy: Mapping[str, object] = field(default_factory=dict)
    user: str = USERS[0]
    unknown: str = "may-fit"
    match: str = "satisfies"


def case(pick: Pick) -> Case:
    """A cluster and a pod."""
    namespace = pick(NAMESPACES)
    machines = [_machine(pick, f"n{number}") for number in range(pick([0, 1, 1, 2, 3]))]
    gone = [_machine(pick, f"n{number}") for number in range(pick([0, 0, 1]))]
    # What was remembered of a node that fell ill is what it was.
    gone += [replace(machine, ill=False) for machine in machines if machine.ill and pick(OFTEN)]
    coming = [_machine(pick, "new")] if pick(SELDOM) else []
    made = Case(
        items=[*_objects(machines), *_namespaces(pick)],
        namespace=namespace,
        pod=pod(pick, namespace),
        before=[*_objects(gone)],
        declared=[*_objects(coming)],
        policy=_policy(pick),
        user=pick(USERS),
        unknown=pick(["may-fit", "may-fit", "cannot-fit"]),
        match=pick(["satisfies", "satisfies", "equal"]),
    )
    items = [*made.items, *map(device_class, pick(_SERVED))]
    pods = [_present(pick, f"old-{at}") for at in range(pick([0, 0, 1, 2, 4]))]
    return replace(made, items=items, pods=pods)


# Nodes.

_TAINTS: list[list[Raw]] = [
    [],
    [],
    [],
    [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
    [{"key": "dedicated", "value": "gpu", "effect": "PreferNoSchedule"}],
    [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}],
    [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}],
]
_POOLS: list[Mapping[str, str]] = [{}, {"pool": "a"}, {"pool": "a"}, {"pool": "b", "size": "8"}]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node and what is told of it: of one that is `ill` its capacity may keep the devices for a while."""

    name: str
    kind: Node
    shown: str = "both"
    ill: bool = False
    kept: bool = False
    busy: bool = False
    ready: str = "True"
    cordoned: bool = False
    os: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Raw] = ()


def _machine(pick: Pick, name: str) -> Machine:
    return Machine(
        name,
        pick(KINDS),
        shown=pick(["both"] * 6 + ["node", "topology"]),
        ill=pick(SELDOM),
        kept=pick([False, True]),
        busy=pick(SOMETIMES),
        ready=pick(["True"] * 7 + ["False", "Unknown"]),
        cordoned=pick(SELDOM),
        os=pick(["", "linux", "linux", "windows"]),
        labels=pick(_POOLS),
        taints=pick(_TAINTS),
    )


def _objects(machines: Iterable[Machine]) -> Iterator[Raw]:
    for machine in machines:
        if machine.shown != "topology":
            yield node(machine)
        if machine.shown != "node":
            yield topology(machine)


def node(machine: Machine) -> Raw:
    """The Node of a machine, labelled with the class that it is of in health."""
    every = Resources()
    for zone in machine.kind.zones:
        every = every.plus(zone.capacity)
    capacity = {**{name: render(name, amount) for name, amount in every.items()}, "pods": "110"}
    allocatable = {
        name: amount for name, amount in capacity.items() if not machine.ill or name not in DEVICES
    }
    labels = {"kubernetes.io/hostname": machine.name, "numalign.io/class": node_class(machine.kind)}
    made = labelled("Node", machine.name, {**labels, **machine.labels})
    made["metadata"]["uid"] = f"uid-of-{machine.name}"
    made["spec"] = {"taints": list(machine.taints), "unschedulable": machine.cordoned}
    made["status"] = {
        "allocatable": allocatable,
        "capacity": capacity if machine.kept else allocatable,
        "conditions": [{"type": "Ready", "status": machine.ready}],
        "nodeInfo": {"operatingSystem": machine.os} if machine.os else {},
    }
    return made


def topology(machine: Machine) -> Raw:
    """What an exporter tells of a machine."""
    return manifests.topology(machine.name, replace(machine.kind, zones=tuple(_zones(machine))))


def _zones(machine: Machine) -> Iterator[Zone]:
    for zone in machine.kind.zones:
        lost = DEVICES if machine.ill else frozenset[str]()
        has = Resources({name: 0 if name in lost else amount for name, amount in zone.capacity.items()})
        yield Zone(zone.id, zone.name, has, has, Resources(dict.fromkeys(has, 0)) if machine.busy else has)


def device_class(resource: str) -> Raw:
    """What has DRA serve an extended resource, on nodes that do not serve it otherwise."""
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    metadata = {"name": resource.replace("/", "-")}
    return {**made, "metadata": metadata, "spec": {"extendedResourceName": resource}}


# What a platform team says.

_LEVELS = ["restricted", "single-numa-node", "best-effort", "none", "tight"]
_LABELS = [{}, {}, *({"default": level} for level in _LEVELS), *({"warn": level} for level in _LEVELS[:2])]
_STRICT = [{"enforce": level} for level in _LEVELS]


def _namespaces(pick: Pick) -> Iterator[Raw]:
    levels_of = {
        "team": pick(_LABELS),
        "strict": {**pick(_LABELS), **pick(_STRICT)},
        "quiet": {**pick(_LABELS), "admission": "disabled"},
    }
    for name, levels in levels_of.items():
        labels = {f"numalign.io/{key}": level for key, level in levels.items()}
        yield labelled("Namespace", name, {"kubernetes.io/metadata.name": name, **labels})


def _policy(pick: Pick) -> Raw:
    if pick(SOMETIMES):
        return {}
    everywhere = {"namespaceSelector": {}, pick(["default", "warn", "audit"]): pick(_LEVELS[:3])}
    team = {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
    one = {"namespaceSelector": team, "enforce": "restricted"}
    exempt = pick([{}, {}, {"namespaces": ["team"]}, {"runtimeClasses": ["kata"]}, {"users": ["system:*"]}])
    reactions = {"never": "warn", "unknownResources": "deny", "taints": "deny", "partial": "deny"}
    more = pick([{}, {}, *({key: reaction} for key, reaction in reactions.items())])
    return {"defaults": pick([[], [everywhere], [one]]), **({"exemptions": exempt} if exempt else {}), **more}


# Pods.

_ANNOTATIONS: list[Mapping[str, str]] = [
    {},
    *[{"numalign.io/policy": "single-numa-node"}] * 6,
    *[{"numalign.io/policy": "restricted"}] * 6,
    {"numalign.io/policy": "single-numa-node", "numalign.io/scope": "pod"},
    {"numalign.io/policy": "restricted", "numalign.io/resources": "nvidia.com/gpu"},
    {"numalign.io/policy": "best-effort"},
    {"numalign.io/policy": "single-numa-node", "numalign.io/exclusive": "zone"},
    {"numalign.io/exclusive": "zone"},
    {"numalign.io/policy": "none"},
    {"numalign.io/scope": "pod"},
    {"numalign.io/policy": "tight"},
    {"numalign.io/polisy": "restricted"},
    {"volcano.sh/numa-topology-policy": "single-numa-node"},
    {"numalign.io/policy": "restricted", "volcano.sh/numa-topology-policy": "none"},
]
_AMOUNTS: list[Mapping[str, str]] = [
    {"cpu": "4", "memory": "8Gi"},
    *[{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}] * 4,
    *[{"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "4"}] * 4,
    {"cpu": "12", "memory": "8Gi"},
    {"cpu": "32", "memory": "16Gi", "nvidia.com/gpu": "8"},
    {"cpu": "500", "memory": "8Gi"},
    {"cpu": "1", "memory": "1Gi", NOWHERE: "1"},
    {"cpu": "4", "memory": "8Gi", "example.com/nic": "1"},
    {"cpu": "many", "memory": "8Gi"},
]
_SELECTORS: list[Mapping[str, str]] = [{}, {}, {}, {"pool": "a"}, {"pool": "b"}, {"pool": "c"}]
_TOLERATIONS: list[list[Raw]] = [
    [],
    [],
    [{"key": "CPUAffinity", "value": "dedicated"}],
    [{"key": "NUMACPUAffinity", "operator": "Exists"}, {"key": "NUMAMemoryPolicy", "value": "strict"}],
    [{"operator": "Exists"}],
    [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
]
_ELSEWHERE = {"key": "pool", "operator": "In", "values": ["b"]}
_TERMS: list[list[Raw]] = [
    [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]}],
    [{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]}],
    [{"matchExpressions": [{"key": "gone", "operator": "Exists"}]}, {"matchExpressions": [_ELSEWHERE]}],
    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}],
]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITIES: list[Raw] = [{}] * 3
_AFFINITIES += ({"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}} for terms in _TERMS)


def plain_pod(annotations: Mapping[str, str]) -> Raw:
    """A pod that fits in any zone of the first kind."""
    limits = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
    return _pod("team", annotations, [_limited("main", limits)])


def pod(pick: Pick, namespace: str) -> Raw:
    """A pod as it is about to be stored."""
    plain = pick(OFTEN)
    containers = [_container(pick, f"c{number}") for number in range(pick([1, 1, 1, 2]))]
    made = _pod(namespace, pick(_ANNOTATIONS), containers)
    spec = made["spec"]
    if not plain:
        spec |= {"nodeSelector": dict(pick(_SELECTORS)), "tolerations": pick(_TOLERATIONS)}
        spec |= {"affinity": pick(_AFFINITIES)}
        spec |= pick([{}, {}, {"os": {"name": "linux"}}, {"os": {"name": "windows"}}])
        spec |= pick([{}, {}, {"runtimeClassName": "kata"}, {"nodeName": "n0"}])
    return made


def _pod(namespace: str, annotations: Mapping[str, str], containers: list[Raw]) -> Raw:
    metadata = {"name": "web", "namespace": namespace, "uid": "uid-of-web", "annotations": dict(annotations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def _present(pick: Pick, name: str) -> Raw:
    """A pod that was bound to a node, as far as its kubelet is with it."""
    made = _pod("team", pick(_ANNOTATIONS[:7]), [_limited("main", pick(_AMOUNTS[:10]))])
    made["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    made["metadata"] |= pick([{}, {}, {}, {"deletionTimestamp": "2026-11-20T01:00:00Z"}])
    made["metadata"]["annotations"] |= pick([{}, {}, {"numalign.io/placement": _RECORD}])
    made["spec"]["nodeName"] = pick(["n0", "n0", "n1", "nowhere"])
    return {**made, "status": pick(_STATUSES)}


_RECORD = '[{"zones": ["node-1"], "amount": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}]'
_STATUSES: list[Raw] = [
    {},
    {"phase": "Running"},
    {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"},
    {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"},
    {"phase": "Succeeded", "startTime": "2026-11-20T00:00:00Z"},
    {"phase": "Failed", "reason": "TopologyAffinityError"},
]


def _container(pick: Pick, name: str) -> Raw:
    limits = pick(_AMOUNTS)
    return _limited(name, limits, pick([limits, limits, limits, {**limits, "cpu": "1"}]))


def _limited(name: str, limits: Mapping[str, str], requests: Mapping[str, str] | None = None) -> Raw:
    resources = {"limits": dict(limits), "requests": dict(requests or limits)}
    return {"name": name, "image": "example/web:1", "resources": resources}
