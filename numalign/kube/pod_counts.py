"""
How many pods meet what is asked of them, by namespace.

What a pod says is up to its owner, and may be as much as an API server stores. So of each pod only a summary
of limited size is kept, shared by all pods with the same one, and sums are updated when a pod changes:
reading them takes no longer for more pods.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from weakref import WeakValueDictionary

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest, summary
from numalign.kube.kinds import Key

MOST_MISTAKES = 1
"""The limit of mistakes kept of one pod: an invalid pod is not counted, unless no rule applies to it."""

_ENDED = frozenset({"Succeeded", "Failed"})

Judge = Callable[[str, PodRequest], tuple[str, ...]]
"""Returns the names under which a pod of a namespace with this request is counted."""


class _CountedPod(NamedTuple):
    request: PodRequest
    names: tuple[str, ...]


class PodCounts:
    """The pods that have not ended, except those whose containers cannot be read.

    `sums` are the pods by namespace and by what the last judge has counted them under. Pods that are
    `too_large` to be summarized count under nothing.
    """

    def __init__(self, reader: PodReader) -> None:
        self.sums = Counter[tuple[str, str]]()
        self.too_large: set[Key] = set()
        self._reader = reader
        self._judge: Judge = lambda _namespace, _request: ()
        self._pods: dict[Key, _CountedPod] = {}
        self._shared: WeakValueDictionary[tuple[object, ...], PodRequest] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._pods) + len(self.too_large)

    def __contains__(self, key: Key) -> bool:
        return key in self._pods or key in self.too_large

    def put(self, key: Key, pod: Mapping[str, object]) -> None:
        """Add or update a pod, given as a v1 Pod."""
        self.drop(key)
        if Part(pod)["status"]["phase"].text() in _ENDED:
            return
        request = self._reader.request(pod, most_mistakes=MOST_MISTAKES)
        if request.demand is None:
            return
        if brief := summary(request):
            content = brief.demand, brief.written, brief.runtime_class
            self._count(key, self._shared.setdefault(content, brief))
        else:
            self.too_large.add(key)

    def drop(self, key: Key) -> None:
        """Remove a pod."""
        self.too_large.discard(key)
        if before := self._pods.pop(key, None):
            for name in before.names:
                self.sums[key[0], name] -= 1
                if not self.sums[key[0], name]:
                    del self.sums[key[0], name]

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Remove all other pods."""
        for key in (self._pods.keys() | self.too_large) - keys:
            self.drop(key)

    def judge_by(self, judge: Judge) -> Iterator[None]:
        """Count by another judge from now on; earlier pods are counted again in steps."""
        self._judge = judge
        for key in [*self._pods]:
            if counted := self._pods.get(key):
                self.drop(key)
                self._count(key, counted.request)
            yield

    def _count(self, key: Key, request: PodRequest) -> None:
        names = self._judge(key[0], request)
        self._pods[key] = _CountedPod(request, names)
        self.sums.update((key[0], name) for name in names)
