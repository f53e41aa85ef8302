"""
Whether a node has room for a pod as a whole, which schedulers check apart from zones.

A zone may have what a pod requests on a node that has given it to pods without zones. Code that leaves a pod
only one node has to know that its scheduler will accept it. Restates NodeResourcesFit of kube-scheduler
(`fitsRequest` of pkg/scheduler/framework/plugins/noderesources/fit.go): the requests of all pods on a node
and the number of these pods against the node's allocatable, including pods with a reservation.

The used amounts are summed up on demand, and cached until the node changes.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from numalign.kube.cluster import NO_NODE
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod
from numalign.model.demand import Demand
from numalign.model.resources import Resources
from numalign.scheduling.scheduler_state import SchedulerState

PODS = "pods"


class _Used(NamedTuple):
    """What the pods of a node request together, and their number."""

    amounts: Counter[str]
    pods: int


@dataclass(eq=False, slots=True)
class NodeFit:
    """Answers from `state`; unknown requests and amounts count as fitting.

    `counts` returns whether a pod of a node is counted.
    """

    state: SchedulerState
    counts: Callable[[AssignedPod], bool] = lambda _pod: True
    _used: dict[str, _Used] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.state.reservations.on_change(self._forget)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is and was: a resize changes nothing else that is known of its node."""
        if pod.node and before and pod.demand != before.demand:
            self._forget(pod.node)

    def fits(self, name: str, demand: Demand) -> bool:
        """Return whether a node has room for a pod that has no place there yet."""
        totals = self._totals(name)
        if totals is None:
            return True
        used, most = self._of(name), totals.get(PODS)
        if most is not None and used.pods >= most:
            return False
        served = self.state.cluster.served
        return all(
            amount <= totals.get(resource, 0) - used.amounts[resource]
            for resource, amount in demand.total.items()
            # Devices that DRA serves are not part of this rule.
            if resource in totals or resource not in served
        )

    def _totals(self, name: str) -> Resources | None:
        """Return the allocatable amounts of the node; None if not reported."""
        info = self.state.reservations.node_info(name)
        if info is not None:
            return info.node.totals
        bare = self.state.cluster.states.get(name, NO_NODE).bare
        return bare.totals if bare else None

    def _of(self, name: str) -> _Used:
        used = self._used.get(name)
        if used is None:
            used = self._used[name] = self._summed(name)
        return used

    def _summed(self, name: str) -> _Used:
        amounts, pods = Counter[str](), 0
        for assigned_pod in filter(self.counts, self.state.reservations.assigned_to(name)):
            pods += 1
            if demand := self._demand(assigned_pod):
                amounts.update(demand.total)
        return _Used(amounts, pods)

    def _demand(self, assigned_pod: AssignedPod) -> Demand | None:
        """Return the current demand of a pod, as its scheduler sees it; the ledger has what was allocated."""
        pod = self.state.pods.get(assigned_pod.uid)
        return (pod.demand or pod.request.most) if pod else assigned_pod.demand

    def _forget(self, name: str) -> None:
        self._used.pop(name, None)
