"""
Pods with an excessive number of entries.

A mutating webhook is called before the API server validates anything, so a pod may have a hundred thousand
terms, and a patch that tightens each of them would be as long again. Such a pod is never refused for it, and
never steered. Its lists are only measured, not read, so that this costs no more than for any other pod.
"""

from numalign.cache.pod_question import (
    MOST_OWNERS,
    MOST_REQUIREMENTS,
    MOST_SELECTED,
    MOST_TERMS,
    MOST_TOLERATIONS,
    MOST_VALUES,
    ExceededLimit,
)

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_TERMS = (*_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERENCES = (*_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")
_SELECTOR = ("spec", "nodeSelector")
_TOLERATIONS = ("spec", "tolerations")
_OWNERS = ("metadata", "ownerReferences")
_REQUIREMENTS = ("matchExpressions", "matchFields")


def excess(pod: object) -> ExceededLimit | None:
    """Return the limit that a pod exceeds; values with an unexpected shape count as empty."""
    terms = _list(pod, *_TERMS)
    lengths = {
        ExceededLimit.OWNERS: (len(_list(pod, *_OWNERS)), MOST_OWNERS),
        ExceededLimit.SELECTOR: (len(_object(pod, *_SELECTOR)), MOST_SELECTED),
        ExceededLimit.TOLERATIONS: (len(_list(pod, *_TOLERATIONS)), MOST_TOLERATIONS),
        ExceededLimit.TERMS: (max(len(terms), len(_list(pod, *_PREFERENCES))), MOST_TERMS),
    }
    if exceeded := next((name for name, (length, most) in lengths.items() if length > most), None):
        return exceeded
    lists = [_list(term, key) for term in terms for key in _REQUIREMENTS]
    if sum(map(len, lists)) > MOST_REQUIREMENTS:
        return ExceededLimit.REQUIREMENTS
    values = sum(len(_list(requirement, "values")) for listed in lists for requirement in listed)
    return ExceededLimit.VALUES if values > MOST_VALUES else None


def crowded(owned: object) -> bool:
    """Return whether an object of any kind has more owners than are read."""
    return len(_list(owned, *_OWNERS)) > MOST_OWNERS


def _at(value: object, *steps: str) -> object:
    """Return the value at the end of a path of members; None if it does not exist."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _list(value: object, *steps: str) -> list[object]:
    """Return the list at the end of a path of members; empty if there is none."""
    value = _at(value, *steps)
    return value if isinstance(value, list) else []


def _object(value: object, *steps: str) -> dict[object, object]:
    """Return the object at the end of a path of members; empty if there is none."""
    value = _at(value, *steps)
    return value if isinstance(value, dict) else {}
