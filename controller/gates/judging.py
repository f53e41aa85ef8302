"""
Aspects of a pod that a scheduler evaluates and numalign does not.

If one of these could keep a pod off the chosen node, the pod is not pinned to that node: it is restricted to
all nodes that fit now, and its scheduler chooses among them.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, cast

from numalign.kube.decode.scheduling import REQUIRED

NODE_INDEPENDENT = frozenset(
    {
        *("configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image"),
        *("nfs", "projected", "secret"),
    }
)
"""Sources of volumes that every node has, as plugins such as VolumeBinding and NodeVolumeLimits see them."""


def unjudged(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the aspects of a v1 Pod that numalign does not evaluate, in readable words; empty if none."""
    spec = _object(pod.get("spec"))
    spreads = _objects(spec.get("topologySpreadConstraints"))
    affinity = _object(spec.get("affinity"))
    containers = chain(_objects(spec.get("containers")), _objects(spec.get("initContainers")))
    ports = chain.from_iterable(_objects(container.get("ports")) for container in containers)
    aspects = {
        "topology spread": any(
            spread.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for spread in spreads
        ),
        "affinity to other pods": any(
            _object(affinity.get(kind)).get(REQUIRED) for kind in ("podAffinity", "podAntiAffinity")
        ),
        "volumes": any(
            volume.keys() - {"name"} - NODE_INDEPENDENT for volume in _objects(spec.get("volumes"))
        ),
        "host ports": any(spec.get("hostNetwork") or port.get("hostPort") for port in ports),
        "resource claims": bool(spec.get("resourceClaims")),
        "a group of pods": bool(spec.get("workloadRef") or spec.get("schedulingGroup")),
    }
    return tuple(words for words, has in aspects.items() if has)


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return map(_object, value if isinstance(value, list) else ())


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
