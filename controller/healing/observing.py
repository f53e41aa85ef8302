"""The alignment of running pods, kept current as nodes, pods and rules change."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from types import MappingProxyType

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numalign.kube.cluster import Change, NamespaceChanged
from numalign.kube.pod_informer import PodInfo
from numalign.runtime.cooperative import TimeSlice
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.pod_alignments import PodAlignment, pod_alignments
from numalign.scheduling.scheduler_state import SchedulerState

_NO_ALIGNMENTS: Mapping[str, PodAlignment] = MappingProxyType({})


class RunningPodAlignments(Collector):
    """The alignment of pods that request it; the metric counts misaligned pods by namespace.

    A namespace has a series only while it exists and has a misaligned pod, and at most `named` namespaces
    have one. All other pods are counted under an empty name.
    """

    def __init__(self, state: SchedulerState, *, named: int = 0) -> None:
        self._state, self._named = state, named
        self._misaligned = Counter[str]()
        self._changed: set[str] = set()
        self._by_node: dict[str, Mapping[str, PodAlignment]] = {}
        self._rules_changed = True
        state.reservations.on_change(self._changed.add)
        state.policy.on_change(self._note_rules)
        state.cluster.listen(self._note_rules)

    def _note_rules(self, change: Change | None = None) -> None:
        """Note that the policy changed, or the rules of a namespace."""
        if change is None or isinstance(change, NamespaceChanged):
            self._rules_changed = True

    def update_pod(self, pod: PodInfo, _before: PodInfo | None) -> None:
        """Handle a pod that was added or changed: its intent may have changed."""
        if pod.node:
            self._changed.add(pod.node)

    async def judge(self) -> None:
        """Judge the pods of every changed node again; other tasks run in between."""
        if not self._state.cluster.listed:
            return
        if self._rules_changed:
            self._rules_changed = False
            self._changed.update(self._state.reservations.node_names())
        time_slice = TimeSlice()
        for name in sorted(self._changed):
            await time_slice.share()
            self._changed.discard(name)
            judged = {entry.pod.uid: entry for entry in pod_alignments(self._state, name)}
            self._misaligned.update(_misaligned(judged.values()))
            self._misaligned.subtract(_misaligned(self._by_node.get(name, _NO_ALIGNMENTS).values()))
            if judged:
                self._by_node[name] = judged
            else:
                self._by_node.pop(name, None)

    def __iter__(self) -> Iterator[PodAlignment]:
        return (entry for judged in self._by_node.values() for entry in judged.values())

    def misaligned(self) -> Iterator[PodAlignment]:
        """Return the pods that are certainly misaligned."""
        return (entry for entry in self if entry.alignment.misaligned)

    def get(self, uid: str) -> PodAlignment | None:
        """Return the alignment of a pod; None if it requests none or was not judged yet."""
        node = self._state.reservations.node_of(uid)
        return None if node is None else self._by_node.get(node, _NO_ALIGNMENTS).get(uid)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current counts."""
        text = "Pods that were observed to be misaligned."
        family = GaugeMetricFamily(f"{PREFIX}misaligned_pods", text, labels=["namespace"])
        # Counters keep names that have become zero.
        self._misaligned = +self._misaligned
        namespaces = self._state.cluster.namespaces
        named = frozenset(nsmallest(self._named, self._misaligned.keys() & namespaces.keys()))
        counts = Counter[str]()
        for namespace, count in self._misaligned.items():
            counts[namespace if namespace in named else ""] += count
        for namespace, count in sorted(counts.items()):
            family.add_metric([namespace], count)
        yield family


def _misaligned(judged: Iterable[PodAlignment]) -> Iterator[str]:
    return (entry.pod.namespace for entry in judged if entry.alignment.misaligned)
