"""
How many pods ask for what, by namespace.

A cluster has a hundred thousand pods, made from a few hundred templates. So a pod is kept as a reference to
what pods like it ask for, which is read once; whoever wants to know how many fall short of a rule looks at
the templates, not at the pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import orjson

from numalign.cluster import pods
from numalign.cluster.parts import Part
from numalign.fleet.recent import Recent
from numalign.rules import demand, intent
from numalign.rules.demand import Demand
from numalign.rules.errors import BadInput
from numalign.rules.intent import Intent

Key = tuple[str, str]
"""Namespace and name."""

REMEMBERED = 4096
"""Kinds of pods whose meaning is kept at hand."""

_ENDED = frozenset({"Succeeded", "Failed"})
# Of one pod alone, and nothing that it asks for.
_RECORDED = frozenset({intent.PLACEMENT, intent.PLACEMENT_OBSERVED})
_PLACED = frozenset({"nodeName"})


@dataclass(frozen=True, slots=True)
class Asking:
    """What a pod asks for; `intent` is None where its annotations say nothing."""

    demand: Demand
    intent: Intent | None


@dataclass(frozen=True, slots=True)
class Tenants:
    """So many pods of a namespace, which ask for the same."""

    namespace: str
    asking: Asking
    count: int


class Census:
    """The pods that have not ended; those that cannot be read are counted with nobody."""

    def __init__(self) -> None:
        self._asking: dict[Key, Asking] = {}
        self._meanings: Recent[bytes, Asking | None] = Recent(REMEMBERED)
        self._equal: dict[Asking, Asking] = {}

    def __len__(self) -> int:
        return len(self._asking)

    def put(self, key: Key, raw: Mapping[str, object]) -> None:
        """A pod is there, as this v1 Pod says."""
        asking = None if _ended(raw) else self._meaning(raw)
        if asking is None:
            self.drop(key)
        else:
            self._asking[key] = asking

    def drop(self, key: Key) -> None:
        """A pod is gone."""
        self._asking.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """No other pods are there any more."""
        for key in self._asking.keys() - keys:
            del self._asking[key]

    def tenants(self) -> Iterator[Tenants]:
        """All pods, by namespace and by what they ask for."""
        counted = Counter((namespace, id(asking)) for (namespace, _), asking in self._asking.items())
        by_id = {id(asking): asking for asking in self._asking.values()}
        for (namespace, number), count in counted.items():
            yield Tenants(namespace, by_id[number], count)

    def _meaning(self, raw: Mapping[str, object]) -> Asking | None:
        told = _told(raw)
        try:
            written = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            # A number or a nesting that YAML can write, and no API server would have let in.
            return None
        asking = self._meanings.get(written, lambda: _read(told))
        if len(self._equal) > 2 * len(self._asking) + REMEMBERED:
            self._equal = {living: living for living in set(self._asking.values())}
        return self._equal.setdefault(asking, asking) if asking else None


def _ended(raw: Mapping[str, object]) -> bool:
    return Part(raw)["status"]["phase"].text() in _ENDED


def _told(raw: Mapping[str, object]) -> dict[str, object]:
    """What of a pod says what it asks for: the same for all pods of a template."""
    whole = Part(raw)
    return {
        "metadata": {"annotations": _without(whole["metadata"]["annotations"].value, _RECORDED)},
        "spec": _without(whole["spec"].value, _PLACED),
    }


def _without(value: object, keys: AbstractSet[str]) -> object:
    """An object without some of its members; what is none stays what it is."""
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key not in keys}


def _read(told: Mapping[str, object]) -> Asking | None:
    """None for what an API server would not have let in, or a newer one lets in."""
    try:
        pod = pods.pod({"apiVersion": "v1", "kind": "Pod", **told})
        return Asking(demand.of(pod), intent.parse(pod.annotations))
    except BadInput:
        return None
