"""
The kinds of objects that are read from an API server: their paths, and which fields are kept.

A node is stored with all its images and a pod with its environment; the rules read a few fields of either.
Fields that are not read are removed as soon as they arrive, so they take no memory and are never passed on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from numalign.kube.decode import koordinator, movability
from numalign.kube.decode.kubelet_reports import MACHINE, OBSERVED_AT, PLACEMENTS
from numalign.kube.decode.nrt import FINGERPRINT_ANNOTATION, GROUP, KIND, MANAGED_BY, VERSIONS
from numalign.model import intent

Object: TypeAlias = dict[str, Any]
"""An object in JSON."""

Key: TypeAlias = tuple[str, str]
"""Namespace and name; the namespace is empty for cluster-scoped objects."""

READY_KEY = 'k:{"type":"Ready"}'
"""The key of a node's condition Ready in `managedFields`."""

MOST_CUT = 1024
"""The limit of elements in a list; a longer one is never read, so cutting it would be a waste of time."""

_ALL = True
# kubectl stores whole manifests in an annotation of its own, including the environment of containers.
_READ = (intent.PREFIX, "volcano.sh/", "kai.scheduler/")
_NAMED: Mapping[str, object] = {"name": _ALL, "labels": _ALL}
_RESOURCES: Mapping[str, object] = {"requests": _ALL, "limits": _ALL}
_CONTAINERS: Mapping[str, object] = {"name": _ALL, "restartPolicy": _ALL, "resources": _RESOURCES}
SPEC: Mapping[str, object] = MappingProxyType(
    {
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
        "resources": _RESOURCES,
        "overhead": _ALL,
        "runtimeClassName": _ALL,
    }
)
"""The fields of a pod's spec with its requests."""
ASKED: Mapping[str, object] = MappingProxyType(
    {"metadata": {"annotations": (intent.PREFIX, intent.VOLCANO_POLICY)}, "spec": SPEC}
)
"""The fields of a pod with its requests."""
_OWNERS: Mapping[str, object] = {
    "ownerReferences": {"kind": _ALL, "apiVersion": _ALL, "controller": _ALL},
}
_SCHEDULING: Mapping[str, object] = {
    "nodeName": _ALL,
    "nodeSelector": _ALL,
    "affinity": {"nodeAffinity": _ALL},
    "tolerations": _ALL,
    "resourceClaims": _ALL,
    "os": {"name": _ALL},
}
READ: Mapping[str, object] = MappingProxyType(
    {
        "metadata": {"annotations": (intent.PREFIX, intent.VOLCANO_POLICY), **_OWNERS},
        "spec": {**SPEC, **_SCHEDULING},
    }
)
"""The fields of a pod with its requests, where it may go, and what has placed it."""

PLACED: Mapping[str, object] = MappingProxyType({"metadata": {**_OWNERS}, "spec": _SCHEDULING})
"""The fields of a pod with where it may go, and what has placed it."""

_ALLOCATED: Mapping[str, object] = {"name": _ALL, "allocatedResources": _ALL}

_POD: Mapping[str, object] = {
    "metadata": {
        "name": _ALL,
        "namespace": _ALL,
        "uid": _ALL,
        "annotations": _READ,
        "creationTimestamp": _ALL,
        "deletionTimestamp": _ALL,
        "ownerReferences": {
            "kind": _ALL,
            "apiVersion": _ALL,
            "controller": _ALL,
            "name": _ALL,
            "uid": _ALL,
        },
    },
    "spec": {
        "schedulerName": _ALL,
        "schedulingGates": {"name": _ALL},
        "priority": _ALL,
        "schedulingGroup": {"podGroupName": _ALL},
        **SPEC,
        **_SCHEDULING,
    },
    "status": {
        "phase": _ALL,
        "startTime": _ALL,
        "reason": _ALL,
        "message": _ALL,
        "qosClass": _ALL,
        "conditions": {"type": _ALL, "status": _ALL, "lastTransitionTime": _ALL},
        **dict.fromkeys(("initContainerStatuses", "containerStatuses"), _ALLOCATED),
    },
}


@dataclass(frozen=True, slots=True)
class Collection:
    """One kind of objects: its names, the path of all of them, and which fields are kept.

    With a `name`, it is only the object of that name; with a `phase`, only pods in it.
    """

    kind: str
    api_version: str
    path: str
    kept: Mapping[str, object]
    name: str = ""
    phase: str = ""

    @property
    def plural(self) -> str:
        """The kind as in a path: `nodes`."""
        return self.path.rpartition("/")[2]

    @property
    def selector(self) -> Sequence[tuple[str, str]]:
        """The query parameters beside the path."""
        fields = {"metadata.name": self.name, "status.phase": self.phase}
        chosen = ",".join(f"{field}={value}" for field, value in fields.items() if value)
        return [("fieldSelector", chosen)] if chosen else []

    def described(self, value: object) -> Object:
        """Return an object with its kind, which lists omit, cut down to the fields that are read."""
        kept: Any = cut(value, self.kept)
        return {"apiVersion": self.api_version, "kind": self.kind, **kept}


def _nodes(*node_info: str, metadata: Mapping[str, object], conditions: Sequence[str]) -> Collection:
    """Return the collection of nodes, with these fields of `nodeInfo`, of `metadata` and of conditions."""
    kept: Mapping[str, object] = {
        "metadata": {**_NAMED, "uid": _ALL, **metadata},
        "spec": {"unschedulable": _ALL, "taints": {"key": _ALL, "value": _ALL, "effect": _ALL}},
        "status": {
            "allocatable": _ALL,
            "capacity": _ALL,
            "conditions": dict.fromkeys(("type", "status", *conditions), _ALL),
            "nodeInfo": dict.fromkeys(node_info, _ALL),
        },
    }
    return Collection("Node", "v1", "/api/v1/nodes", MappingProxyType(kept))


_HEARTBEAT: Mapping[str, object] = {"f:status": {"f:conditions": {READY_KEY: {"f:lastHeartbeatTime": {}}}}}

NODES = _nodes("kubeletVersion", "operatingSystem", "systemUUID", "machineID", metadata={}, conditions=())
NODES_IN_FILES = _nodes(
    "kubeletVersion",
    "operatingSystem",
    metadata={"managedFields": {"manager": _ALL, "time": _ALL, "fieldsV1": _HEARTBEAT}},
    conditions=("lastHeartbeatTime",),
)
"""The fields of a node in files, which are passed on: what identifies a machine is confidential, according to
machine-id(5). There the uid distinguishes nodes with the same name. One write of its kubelet has the times of
two clocks: the heartbeat by its own, and `managedFields` by that of the API server."""

NAMESPACES = Collection("Namespace", "v1", "/api/v1/namespaces", MappingProxyType({"metadata": _NAMED}))
PODS = Collection("Pod", "v1", "/api/v1/pods", MappingProxyType(_POD))
FAILED_PODS = Collection(
    "Pod",
    "v1",
    "/api/v1/pods",
    MappingProxyType(
        {
            "metadata": dict.fromkeys(("name", "namespace", "uid", "creationTimestamp"), _ALL),
            "spec": {"nodeName": _ALL, "runtimeClassName": _ALL},
            "status": dict.fromkeys(("phase", "reason", "message", "startTime"), _ALL),
        }
    ),
    phase="Failed",
)
"""Pods that failed, with why."""
_REQUIRED: Mapping[str, object] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
_WITH_PORTS: Mapping[str, object] = {**_CONTAINERS, "ports": {"hostPort": _ALL}}

PODS_IN_FILES = Collection(
    "Pod",
    "v1",
    "/api/v1/pods",
    MappingProxyType(
        {
            "metadata": {
                **cast("Mapping[str, object]", _POD["metadata"]),
                "annotations": (*_READ, *movability.ANNOTATIONS),
                # Readers of a file select pods by labels.
                "labels": _ALL,
            },
            "spec": {
                **cast("Mapping[str, object]", _POD["spec"]),
                "priority": _ALL,
                "priorityClassName": _ALL,
                # The kinds of a pod's volumes, without their contents.
                "volumes": {sort: {} for sort in movability.VOLUMES},
                # What keeps all but its own scheduler from choosing its node.
                "topologySpreadConstraints": {"whenUnsatisfiable": _ALL},
                "affinity": {"nodeAffinity": _ALL, "podAffinity": _REQUIRED, "podAntiAffinity": _REQUIRED},
                "hostNetwork": _ALL,
                **dict.fromkeys(("initContainers", "containers"), _WITH_PORTS),
                "workloadRef": {},
                "schedulingGroup": {},
            },
            "status": {
                **cast("Mapping[str, object]", _POD["status"]),
                "extendedResourceClaimStatus": {},
            },
        }
    ),
)
"""The fields of a pod in files: also those that decide whether it may be moved (`movability`)."""

TOPOLOGIES = tuple(
    Collection(
        KIND,
        f"{GROUP}/{version}",
        f"/apis/{GROUP}/{version}/noderesourcetopologies",
        MappingProxyType(
            {
                "metadata": {
                    "name": _ALL,
                    "labels": (MANAGED_BY,),
                    "annotations": (
                        *(FINGERPRINT_ANNOTATION, MACHINE, PLACEMENTS, OBSERVED_AT),
                        *koordinator.ANNOTATIONS,
                    ),
                },
                "topologyPolicies": _ALL,
                "attributes": _ALL,
                "zones": _ALL,
            }
        ),
    )
    for version in VERSIONS
)
"""The versions that can be read, the preferred one first."""

_WRITTEN: Mapping[str, object] = {"f:zones": {}, "f:attributes": {}, "f:topologyPolicies": {}}


def _with_writers(topologies: Collection) -> Collection:
    """Return the same, with the names of the programs that wrote the topology."""
    kept = dict(topologies.kept)
    kept["metadata"] = {
        **cast("Mapping[str, object]", kept["metadata"]),
        "managedFields": {"manager": _ALL, "fieldsV1": _WRITTEN},
    }
    return replace(topologies, kept=MappingProxyType(kept))


TOPOLOGIES_IN_FILES = tuple(map(_with_writers, TOPOLOGIES))
"""The fields of a topology in files: also which programs wrote it, because there should be only one."""


def cut(value: object, kept: object) -> object:
    """Return the kept fields of a value from JSON or YAML; values with another shape stay as they are."""
    # Most fields are kept whole: checked first, because long lists spend their time here.
    if kept is _ALL:
        return value
    if isinstance(kept, tuple):
        return _beginning(value, kept)
    fields = cast("Mapping[str, object]", kept)
    if isinstance(value, list):
        if len(value) > MOST_CUT:
            return value
        return [cut(element, fields) if isinstance(element, dict) else element for element in value]
    if isinstance(value, dict):
        return {key: cut(value[key], inner) for key, inner in fields.items() if key in value}
    return value


def _beginning(value: object, beginnings: tuple[str, ...]) -> object:
    """Return an object with only the members whose names have one of these prefixes."""
    if not isinstance(value, dict):
        return value
    return {key: text for key, text in value.items() if str(key).startswith(beginnings)}
