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

_NONE = Counter[str]()

Judge = Callable[[str, PodRequest], tuple[str, ...]]
"""Returns the names under which a pod of a namespace with this request is counted."""


class _CountedPod(NamedTuple):
    request: PodRequest
    names: tuple[str, ...]


class _CountedCpus(NamedTuple):
    """The exclusive CPUs of a pod on a node, "" if it has none."""

    cpus: int
    node: str


class ExclusiveCpus(NamedTuple):
    """The exclusive CPUs of the pods on nodes, and of those without one, in whole CPUs."""

    used: int
    pending: int


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
        self._cpus: dict[Key, _CountedCpus] = {}
        self._cpus_by_node: dict[str, Counter[str]] = {}
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
        if cpus := request.demand.exclusive_cpus:
            counted = self._cpus[key] = _CountedCpus(cpus, Part(pod)["spec"]["nodeName"].text())
            self._cpus_by_node.setdefault(key[0], Counter())[counted.node] += cpus
        if brief := summary(request):
            content = brief.demand, brief.written, brief.runtime_class
            self._count(key, self._shared.setdefault(content, brief))
        else:
            self.too_large.add(key)

    def drop(self, key: Key) -> None:
        """Remove a pod."""
        self.too_large.discard(key)
        if counted := self._cpus.pop(key, None):
            by_node = self._cpus_by_node[key[0]]
            by_node[counted.node] -= counted.cpus
            if not by_node[counted.node]:
                del by_node[counted.node]
            if not by_node:
                del self._cpus_by_node[key[0]]
        self._uncount(key)

    def _uncount(self, key: Key) -> None:
        if before := self._pods.pop(key, None):
            for name in before.names:
                self.sums[key[0], name] -= 1
                if not self.sums[key[0], name]:
                    del self.sums[key[0], name]

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Remove all other pods."""
        for key in (self._pods.keys() | self.too_large) - keys:
            self.drop(key)

    def exclusive_cpus(
        self, namespace: str, *, unpinned: AbstractSet[str], without: Key = ("", "")
    ) -> ExclusiveCpus:
        """Return the exclusive CPUs of the pods of a namespace, of which one may be left out.

        Kubelets of `unpinned` nodes pin none. The time depends on the number of nodes, not of pods.
        """
        by_node, one = self._cpus_by_node.get(namespace, _NONE), self._cpus.get(without)
        if one:
            by_node = by_node - Counter({one.node: one.cpus})
        used = sum(cpus for node, cpus in by_node.items() if node and node not in unpinned)
        return ExclusiveCpus(used, by_node[""])

    def judge_by(self, judge: Judge) -> Iterator[None]:
        """Count by another judge from now on; earlier pods are counted again in steps."""
        self._judge = judge
        for key in [*self._pods]:
            if counted := self._pods.get(key):
                self._uncount(key)
                self._count(key, counted.request)
            yield

    def _count(self, key: Key, request: PodRequest) -> None:
        names = self._judge(key[0], request)
        self._pods[key] = _CountedPod(request, names)
        self.sums.update((key[0], name) for name in names)
