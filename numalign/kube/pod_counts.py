"""
How many pods have which request, by namespace.

A cluster has a hundred thousand pods, created from a few hundred templates. So a pod is stored as a reference
to the request it shares with others, and rules are checked by template.
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
"""The limit of mistakes kept of one pod: an invalid pod is not counted, unless no rule applies to it."""

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PodCount:
    """The number of pods in a namespace with the same request."""

    namespace: str
    request: PodRequest
    count: int


class PodCounts:
    """The pods that have not ended, except those whose containers cannot be read."""

    def __init__(self, reader: PodReader) -> None:
        self._reader = reader
        self._requests: dict[Key, PodRequest] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, key: Key) -> PodRequest | None:
        """Return the request of a pod that counts; None for any other."""
        return self._requests.get(key)

    def put(self, key: Key, pod: Mapping[str, object]) -> None:
        """Add or update a pod, given as a v1 Pod."""
        ended = Part(pod)["status"]["phase"].text() in _ENDED
        request = None if ended else self._reader.request(pod, most_mistakes=MOST_MISTAKES)
        if request and request.demand is not None:
            self._requests[key] = request
        else:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Remove a pod."""
        self._requests.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Remove all other pods."""
        for key in self._requests.keys() - keys:
            del self._requests[key]

    def counts(self) -> Iterator[PodCount]:
        """Yield all pods, by namespace and request."""
        # Pods with equal requests share one object, and hashing it would take longer.
        numbers = Counter((namespace, id(request)) for (namespace, _), request in self._requests.items())
        requests = {id(request): request for request in self._requests.values()}
        for (namespace, number), count in numbers.items():
            yield PodCount(namespace, requests[number], count)
