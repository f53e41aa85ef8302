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

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_request import PodRequest, PodRequestDecoder
from numalign.lru import Caches

Key = tuple[str, str]
"""Namespace and name."""

MOST_MISTAKES = 1
"""Of the annotations of one pod that are kept: such a pod is not counted, unless nobody asks it anything."""

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PodCount:
    """So many pods of a namespace, which ask for the same."""

    namespace: str
    asking: PodRequest
    count: int


class PodCounts:
    """The pods that have not ended; those whose containers cannot be read are counted with nobody."""

    def __init__(self) -> None:
        self._asking: dict[Key, PodRequest] = {}
        self._askings = PodRequestDecoder(most_mistakes=MOST_MISTAKES)

    def __len__(self) -> int:
        return len(self._asking)

    def caches(self) -> Caches:
        """What is remembered of pods that may be there no more."""
        return {"askings": self._askings.cache}

    def put(self, key: Key, raw: Mapping[str, object]) -> None:
        """A pod is there, as this v1 Pod says."""
        asking = None if _ended(raw) else self._askings.of(raw)
        if asking is None or asking.demand is None:
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

    def tenants(self) -> Iterator[PodCount]:
        """All pods, by namespace and by what they ask for."""
        counted = Counter((namespace, id(asking)) for (namespace, _), asking in self._asking.items())
        by_id = {id(asking): asking for asking in self._asking.values()}
        for (namespace, number), count in counted.items():
            yield PodCount(namespace, by_id[number], count)


def _ended(raw: Mapping[str, object]) -> bool:
    return Part(raw)["status"]["phase"].text() in _ENDED
