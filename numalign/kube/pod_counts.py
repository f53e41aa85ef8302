"""
How many pods ask for what, by namespace.

A cluster has a hundred thousand pods, made from a few hundred templates. So a pod is kept as a reference to
what pods like it ask for; whoever wants to know how many fall short of a rule looks at the templates.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.kinds import Key

MOST_MISTAKES = 1
"""Of the annotations of one pod that are kept: such a pod is not counted, unless nobody asks it anything."""

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PodCount:
    """So many pods of a namespace, which ask for the same."""

    namespace: str
    request: PodRequest
    count: int


class PodCounts:
    """The pods that have not ended; those whose containers cannot be read are counted with nobody."""

    def __init__(self, reader: PodReader) -> None:
        self._reader = reader
        self._requests: dict[Key, PodRequest] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, key: Key, pod: Mapping[str, object]) -> None:
        """A pod is there, as this v1 Pod says."""
        ended = Part(pod)["status"]["phase"].text() in _ENDED
        request = None if ended else self._reader.request(pod, most_mistakes=MOST_MISTAKES)
        if request and request.demand is not None:
            self._requests[key] = request
        else:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """A pod is gone."""
        self._requests.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """No other pods are there any more."""
        for key in self._requests.keys() - keys:
            del self._requests[key]

    def counts(self) -> Iterator[PodCount]:
        """Yield all pods, by namespace and by what they ask for."""
        # Pods that ask for the same share one request, and to hash it would take longer.
        numbers = Counter((namespace, id(request)) for (namespace, _), request in self._requests.items())
        requests = {id(request): request for request in self._requests.values()}
        for (namespace, number), count in numbers.items():
            yield PodCount(namespace, requests[number], count)
