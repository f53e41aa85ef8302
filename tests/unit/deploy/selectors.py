"""Which webhooks an API server would call: selectors and conditions evaluated as it does, as far as ours go.

Conditions are CEL, for which there is no interpreter here. So each of ours is known by its text, with a
function that means the same; one that is not known fails loudly. What the API server makes of them is seen
end to end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from numalign.decision import taints

Object = Mapping[str, Any]
Labels = Mapping[str, str]
NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Request:
    """What is known of a request when webhooks are chosen for it."""

    object: Object
    old: Object = field(default_factory=dict)
    operation: str = "CREATE"
    groups: Sequence[str] = ("system:authenticated",)


def called(configuration: Object, *, namespace: Labels, request: Request) -> list[str]:
    """The names of a configuration's webhooks that would be called."""
    return [
        entry["name"]
        for entry in configuration["webhooks"]
        if selects(entry["namespaceSelector"], namespace)
        and all(holds(condition["expression"], request) for condition in entry["matchConditions"])
    ]


def selects(selector: Object, labels: Labels) -> bool:
    """metav1.LabelSelector."""
    exactly = selector.get("matchLabels", {}).items() <= labels.items()
    return exactly and all(
        _OPERATORS[each["operator"]](labels.get(each["key"]), each.get("values", ()))
        for each in selector.get("matchExpressions", ())
    )


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = MappingProxyType(
    {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
)


def holds(expression: str, request: Request) -> bool:
    """Whether a condition lets the request through; KeyError for one that is not known."""
    return CONDITIONS[" ".join(expression.split())](request)


def _annotated(request: Request) -> bool:
    annotations = request.object["metadata"].get("annotations", {})
    return any(
        key.startswith("numalign.io/") or key == "volcano.sh/numa-topology-policy" for key in annotations
    )


def _annotated_or_tolerating(request: Request) -> bool:
    tolerations = request.object["spec"].get("tolerations", [])
    return _annotated(request) or any(each.get("key") in taints.KEYS for each in tolerations)


def _changed(request: Request) -> bool:
    is_new = request.operation == "CREATE" or "spec" not in request.object
    return is_new or request.object["spec"] != request.old["spec"] or _tells(request)


def _tells(request: Request) -> bool:
    """Whether anything said to us is not as it was."""
    old, new = (each["metadata"].get("annotations", {}) for each in (request.old, request.object))
    ours = (key for key in new if key.startswith("numalign.io/") or key == "volcano.sh/numa-topology-policy")
    return any(new[key] != old.get(key) for key in ours)


def _independent(request: Request) -> bool:
    owners = request.object["metadata"].get("ownerReferences", [])
    return not any(
        owner.get("controller") and owner["apiVersion"].startswith(("apps/", "batch/")) for owner in owners
    )


CONDITIONS: Mapping[str, Callable[[Request], bool]] = MappingProxyType(
    {
        "!('system:nodes' in request.userInfo.groups)": lambda request: "system:nodes" not in request.groups,
        "has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
        " key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')": _annotated,
        "(has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
        " key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')) ||"
        " (has(object.spec.tolerations) && object.spec.tolerations.exists(toleration, has(toleration.key) &&"
        f" toleration.key in {[*taints.KEYS]}))": _annotated_or_tolerating,
        "request.operation == 'CREATE' || !has(object.spec) || object.spec != oldObject.spec ||"
        " (has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
        " (key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy') &&"
        " !(has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations &&"
        " oldObject.metadata.annotations[key] == object.metadata.annotations[key])))": _changed,
        "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(owner,"
        " has(owner.controller) && owner.controller &&"
        " (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('batch/')))": _independent,
    }
)
