"""
The nodes that recently refused pods, so that the next pods with the same demand avoid them.

A kubelet that refuses ends the pod, its controller creates another from the same template, and a scheduler
without knowledge of zones sends it to the same node again. A kubelet decides by the containers' requests: not
by annotations, nor by the owner, which may differ each time (a restarted JobSet creates other Jobs). So a
refusal counts for all pods of the namespace with the same demand. After some minutes it no longer counts.

The users decide how many pods fail. So the memory is limited per namespace, whatever happens in the others.
"""

from collections.abc import Callable

from numalign.kube.pod_informer import Phase, PodInfo
from numalign.kubelet.admission_errors import RejectionReason
from numalign.lru import LRU, Caches
from numalign.model.demand import Demand
from numalign.runtime.clock import least_age

REFUSALS = frozenset(map(str, RejectionReason))
"""The reasons in the status of a pod that its kubelet refused."""

AVOID_SECONDS = 300.0
"""How long a node is avoided by pods like one that it refused."""

MOST_NODES = 8
"""The limit of nodes avoided at a time, the latest first: more may well be all there are."""

MOST_NAMESPACES = 1024
MOST_DEMANDS = 32
"""The limit for one namespace."""


class _Namespace:
    """The refusals of one namespace: when each node refused a pod with a demand.

    Demands are stored as hashes, because they may be long; a user who creates a collision harms only the own
    namespace.
    """

    def __init__(self) -> None:
        self.demands: LRU[int, dict[str, float]] = LRU(MOST_DEMANDS)

    def put(self, demand: int, node: str, at: float) -> None:
        """Record that a node refused a pod; the latest time counts."""
        nodes = dict(self.demands.peek(demand) or {})
        nodes[node] = max(at, nodes.get(node, at))
        newest = sorted(nodes, key=lambda name: (-nodes[name], name))[:MOST_NODES]
        self.demands.put(demand, {name: nodes[name] for name in newest})


class RecentRefusals:
    """The refusals of the last minutes. `clock` is in seconds, `wall` in seconds since 1970."""

    def __init__(self, *, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._wall = wall
        self._namespaces: LRU[str, _Namespace] = LRU(MOST_NAMESPACES)

    def caches(self) -> Caches:
        """Return the cache by namespace."""
        return {"avoided": self._namespaces}

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is now, and as it was; None if it was not seen before."""
        if refused(pod) and pod.demand is not None and not (before and refused(before)):
            age = 0.0 if before else self.age(failed_at(pod))
            self.put(pod.namespace, pod.demand, node=pod.node, age=age)

    def put(self, namespace: str, demand: Demand, *, node: str, age: float) -> None:
        """Record that a node refused a pod `age` seconds ago; ignore one that is too old."""
        if not node or age >= AVOID_SECONDS:
            return
        self._namespaces.get(namespace, _Namespace).put(hash(demand), node, self._clock() - age)

    def age(self, at: float) -> float:
        """Return how old a refusal is at least that nobody here saw happen, as before a restart.

        `at` is in seconds since 1970, by the clock of another machine.
        """
        return least_age(self._wall(), at)

    def nodes(self, namespace: str, demand: Demand) -> tuple[str, ...]:
        """Return the nodes that such a pod should avoid, those that refused last before others."""
        refusals = self._namespaces.peek(namespace)
        nodes = refusals.demands.peek(hash(demand)) if refusals else None
        since = self._clock() - AVOID_SECONDS
        return tuple(node for node, at in (nodes or {}).items() if at > since)


def refused(pod: PodInfo) -> bool:
    """Return whether its kubelet refused the pod, for a reason about zones."""
    return pod.phase is Phase.FAILED and pod.reason in REFUSALS and bool(pod.node)


def failed_at(pod: PodInfo) -> int:
    """Return when its kubelet refused a pod, in whole seconds since 1970; 0 if unknown.

    A kubelet that refuses a pod records the time of the decision as the start. If its clock is behind, that
    may be before the pod was created.
    """
    return pod.latest
