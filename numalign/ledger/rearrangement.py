"""
Predictions after some pods have left and others have come.

A search for a better placement tries many rearrangements, of which at most one comes true. So nothing is
reserved here: the ledger is unchanged, and each try is a value of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from numalign.decision.evaluate import NO_INTENT
from numalign.kubelet.admit import effective_demand
from numalign.ledger import ordering
from numalign.ledger.free import free_capacity
from numalign.ledger.model import AssignedPod, FreeCapacity, NodeInfo, Prediction, Stage
from numalign.ledger.reservations import Reservations
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.resources import EMPTY, Resources

PODS = "pods"
"""The name of the number of pods that a node can run, among its totals."""


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A ledger at the time `now`, except for the nodes that have `changed`."""

    reservations: Reservations
    now: float
    changed: Mapping[str, NodeInfo] = field(default_factory=dict)

    def info(self, name: str) -> NodeInfo | None:
        """Return all that would be known of a node; None if its topology is not known."""
        return self.changed.get(name) or self.reservations.node_info(name)

    def leaving(self, name: str, uids: Iterable[str]) -> "Rearrangement":
        """Return the same after these pods have left this node, as far as they are on it."""
        info, gone = self.info(name), frozenset(uids)
        leavers = {pod.uid: pod for pod in info.assigned_pods if pod.uid in gone} if info else {}
        if info is None or not leavers:
            return self
        expected = {uid for uid, pod in leavers.items() if pod.reserved}
        return self._with(name, info.without(expected).after(leavers.keys() - expected))

    def coming(self, name: str, pod: AssignedPod, prediction: Prediction) -> "Rearrangement":
        """Return the same with this pod on this node as predicted; unknown amounts count in full."""
        info = self.info(name)
        if info is None:
            return self
        # Fingerprints identify pods by name, and a replacement may have the name of its predecessor.
        newcomer = replace(
            pod,
            uid=f"{pod.uid} again",
            name=(pod.name[0], f"{pod.name[1]} again"),
            stage=Stage.RESERVED,
            since=self.now,
            record=prediction.record,
            guess=prediction.held,
            turn=1 + max((other.turn for other in info.assigned_pods), default=0),
            terminating=False,
        )
        return self._with(name, replace(info, assigned_pods=(*info.assigned_pods, newcomer)))

    def predict(self, name: str, demand: Demand, intent: Intent = NO_INTENT) -> Prediction | None:
        """Return the prediction for a pod on a node; None if its topology is not known."""
        info = self.info(name)
        if info is None:
            return None
        lag = self.reservations.lag
        return ordering.predict(info, demand, intent, now=self.now, lag=lag, free=self.free(name))

    def predict_settled(self, name: str, demand: Demand, intent: Intent = NO_INTENT) -> Prediction | None:
        """Return the prediction after the kubelet has admitted all pending pods, as predicted."""
        info, free = self.info(name), self.free(name)
        if info is None or free is None:
            return None
        lag, settled = self.reservations.lag, replace(free, pending=())
        return ordering.predict(info, demand, intent, now=self.now, lag=lag, free=settled)

    def free(self, name: str) -> FreeCapacity | None:
        """Return what would be free on a node; None if its topology is not known."""
        if name not in self.changed:
            return self.reservations.free_capacity(name, now=self.now)
        return free_capacity(self.changed[name], now=self.now, lag=self.reservations.lag)

    def fits(self, name: str, demand: Demand) -> bool:
        """Return whether the node as a whole would have room for a pod beside all other requests."""
        return self.info(name) is not None and not self.short_of(name, demand)

    def short_of(self, name: str, demand: Demand) -> Resources:
        """Return what the node as a whole would lack for a pod; nothing if its topology is not known."""
        info = self.info(name)
        return short_of(info, demand) if info else EMPTY

    def _with(self, name: str, info: NodeInfo) -> "Rearrangement":
        return replace(self, changed=MappingProxyType({**self.changed, name: info}))


def short_of(info: NodeInfo, demand: Demand) -> Resources:
    """Return what a node as a whole lacks for a pod, whatever its zones have, pod count included.

    Restates fitsRequest of pkg/scheduler/framework/plugins/noderesources/fit.go; nothing if the allocatable
    amounts of the node are not known.
    """
    totals = info.node.totals
    if totals is None:
        return Resources()
    asked = {**effective_demand(info.node, demand).total, PODS: 1}
    lacking = {name: amount - totals[name] for name, amount in asked.items() if amount and name in totals}
    for pod in info.assigned_pods:
        requested = pod.demand.total if pod.demand else Resources()
        for name in lacking:
            lacking[name] += 1 if name == PODS else requested.get(name, 0)
    return Resources({name: amount for name, amount in lacking.items() if amount > 0})
