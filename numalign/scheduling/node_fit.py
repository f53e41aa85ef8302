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

from numalign.kube.cluster import NO_NODE
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod
from numalign.ledger.rearrangement import PODS
from numalign.model.demand import Demand
from numalign.scheduling.scheduler_state import SchedulerState


@dataclass(eq=False, slots=True)
class NodeFit:
    """Answers from `state`; unknown requests and amounts count as fitting.

    `counts` returns whether a pod of a node is counted.
    """

    state: SchedulerState
    counts: Callable[[AssignedPod], bool] = lambda _pod: True
    _used: dict[str, tuple[Counter[str], int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.state.reservations.on_change(self._forget)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Take a pod as it is and was: a resize changes nothing else that is known of its node."""
        if pod.node and before and pod.demand != before.demand:
            self._forget(pod.node)

    def fits(self, name: str, demand: Demand) -> bool:
        """Return whether a node has room for a pod that has no place there yet."""
        info = self.state.reservations.node_info(name)
        totals = info.node.totals if info else None
        if info is None and (bare := self.state.cluster.states.get(name, NO_NODE).bare):
            totals = bare.totals
        if totals is None:
            return True
        if name not in self._used:
            self._used[name] = self._summed(name)
        amounts, pods = self._used[name]
        most, served = totals.get(PODS), self.state.cluster.served
        if most is not None and pods >= most:
            return False
        return all(
            amount <= totals.get(resource, 0) - amounts[resource]
            for resource, amount in demand.total.items()
            # Devices that DRA serves are not part of this rule.
            if resource in totals or resource not in served
        )

    def _summed(self, name: str) -> tuple[Counter[str], int]:
        """Return what the pods of a node request together, and their number."""
        amounts, pods = Counter[str](), 0
        for assigned_pod in filter(self.counts, self.state.reservations.assigned_to(name)):
            pods += 1
            # As its scheduler sees it now; the ledger has what was allocated.
            pod = self.state.pods.get(assigned_pod.uid)
            if requested := (pod.demand or pod.request.most) if pod else assigned_pod.demand:
                amounts.update(requested.total)
        return amounts, pods

    def _forget(self, name: str) -> None:
        self._used.pop(name, None)
