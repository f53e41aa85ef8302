"""
Which nodes have just refused pods, so that the next ones that ask for the same are sent elsewhere first.

A kubelet that says no ends the pod, its controller makes another of the same template, and a scheduler that
knows nothing of zones sends that to the same node again. A kubelet goes by what containers ask for: not by
annotations, nor by who made the pod, which may be another each time (a JobSet that starts anew makes other
Jobs). So a refusal counts for all pods of the namespace that ask for the same. After some minutes it says
nothing any more.

How many pods fail is up to whoever makes them. Of each namespace so much is remembered, whatever happens in
the others.
"""

from collections.abc import Callable

from numalign.kube.pod_informer import Phase, PodInfo
from numalign.kubelet.admission_errors import RejectionReason
from numalign.lru import LRU, Caches
from numalign.memory_size import weight
from numalign.model.demand import Demand

REFUSALS = frozenset(map(str, RejectionReason))
"""The reasons in the status of a pod that its kubelet refused."""

AVOID_SECONDS = 300.0
"""How long a node is avoided by pods like one that it refused."""

MOST_NODES = 8
"""That are avoided at a time, those that refused last: more may well be all that there are."""

MOST_NAMESPACES = 1024
MOST_DEMANDS = 32
"""Of one namespace."""


class _Namespace:
    """The refusals of one namespace: when each node refused a pod that asked for this.

    Demands are kept as hashes, for they may be long; who makes two that have the same deceives nobody else.
    """

    def __init__(self) -> None:
        self.demands: LRU[int, dict[str, float]] = LRU(MOST_DEMANDS)

    def put(self, demand: int, node: str, at: float) -> None:
        """A node refused a pod then; the latest time counts."""
        nodes = dict(self.demands.peek(demand) or {})
        nodes[node] = max(at, nodes.get(node, at))
        newest = sorted(nodes, key=lambda name: (-nodes[name], name))[:MOST_NODES]
        self.demands.put(demand, {name: nodes[name] for name in newest})


class RecentRefusals:
    """The refusals of the last minutes. `clock` is in seconds, `wall` in seconds since 1970."""

    def __init__(self, *, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._namespaces: LRU[str, _Namespace] = LRU(MOST_NAMESPACES, weigh=_weight)

    def caches(self) -> Caches:
        """Return what is remembered, by namespace."""
        return {"avoided": self._namespaces}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """A pod is like this now; it was like that before, or was not seen."""
        if refused(pod) and pod.demand is not None and not (before and refused(before)):
            self.put(pod.namespace, pod.demand, node=pod.node, at=failed_at(pod))

    def put(self, namespace: str, demand: Demand, *, node: str, at: float) -> None:
        """A node refused a pod, `at` that many seconds since 1970.

        One that was refused too long ago, before a restart say, counts no more.
        """
        if not (node and self.recent(at)):
            return
        refusals = self._namespaces.get(namespace, _Namespace)
        refusals.put(hash(demand), node, self._clock() - self._age(at))
        self._namespaces.weigh_again(namespace)

    def recent(self, at: float) -> bool:
        """Return whether what happened then, in seconds since 1970, counts still."""
        return self._age(at) < AVOID_SECONDS

    def _age(self, at: float) -> float:
        # Whose clock is ahead of ours cannot make it count for longer.
        return max(0.0, self._wall() - at)

    def nodes(self, namespace: str, demand: Demand) -> tuple[str, ...]:
        """The nodes that such a pod should not be sent to first, those that refused last before others."""
        refusals = self._namespaces.peek(namespace)
        nodes = refusals.demands.peek(hash(demand)) if refusals else None
        since = self._clock() - AVOID_SECONDS
        return tuple(node for node, at in (nodes or {}).items() if at > since)


def refused(pod: PodInfo) -> bool:
    """Return whether its kubelet refused the pod, for a reason that has to do with zones."""
    return pod.phase is Phase.FAILED and pod.reason in REFUSALS and bool(pod.node)


def failed_at(pod: PodInfo) -> int:
    """When its kubelet refused a pod, in whole seconds since 1970; 0 if nobody says.

    A kubelet that takes no pod in writes when it looked at it as when it started.
    """
    return pod.started or pod.created


def _weight(namespace: str, refusals: _Namespace) -> int:
    return weight(namespace) + refusals.demands.bytes
