"""
Aspects of a pod that a scheduler evaluates and numalign does not.

If one of these could keep a pod off the chosen node, the pod is not pinned to that node: it is restricted to
all nodes that fit now, and its scheduler chooses among them.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, cast

from numalign.kube.decode.scheduling import REQUIRED

NODE_INDEPENDENT = frozenset(
    {
        *("configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image"),
        *("nfs", "projected", "secret"),
    }
)
"""Sources of volumes that every node has, as plugins such as VolumeBinding and NodeVolumeLimits see them."""

_DO_NOT_SCHEDULE = "DoNotSchedule"


def unjudged(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the aspects of a v1 Pod that numalign does not evaluate, in readable words; empty if none."""
    spec = _object(pod.get("spec"))
    return tuple(words for words, has in _ASPECTS.items() if has(spec))


def _spreads(spec: Mapping[str, Any]) -> bool:
    rules = _objects(spec.get("topologySpreadConstraints"))
    return any(rule.get("whenUnsatisfiable", _DO_NOT_SCHEDULE) == _DO_NOT_SCHEDULE for rule in rules)


def _depends_on_pods(spec: Mapping[str, Any]) -> bool:
    affinity = _object(spec.get("affinity"))
    return any(_object(affinity.get(kind)).get(REQUIRED) for kind in ("podAffinity", "podAntiAffinity"))


def _has_volumes(spec: Mapping[str, Any]) -> bool:
    return any(volume.keys() - {"name"} - NODE_INDEPENDENT for volume in _objects(spec.get("volumes")))


def _has_host_ports(spec: Mapping[str, Any]) -> bool:
    lists = (_objects(spec.get(key)) for key in ("containers", "initContainers"))
    containers = chain.from_iterable(lists)
    ports = chain.from_iterable(_objects(container.get("ports")) for container in containers)
    return any(spec.get("hostNetwork") or port.get("hostPort") for port in ports)


def _has_claims(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("resourceClaims"))


def _is_of_a_group(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("workloadRef") or spec.get("schedulingGroup"))


_ASPECTS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = MappingProxyType(
    {
        "topology spread": _spreads,
        "affinity to other pods": _depends_on_pods,
        "volumes": _has_volumes,
        "host ports": _has_host_ports,
        "resource claims": _has_claims,
        "a group of pods": _is_of_a_group,
    }
)


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return map(_object, value if isinstance(value, list) else ())


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
