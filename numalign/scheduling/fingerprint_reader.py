"""The pods of a node for which the fingerprint in its topology accounts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numalign.kube.decode import fingerprints
from numalign.kube.decode.fingerprints import Fingerprint, Method
from numalign.ledger.claims import exclusive
from numalign.ledger.model import AssignedPod, PodName
from numalign.model.node import Node


@dataclass(frozen=True, slots=True)
class PodFingerprintReader:
    """Reads one fingerprint; equal for equal fingerprints. See `numalign.ledger.model.FingerprintReader`."""

    fingerprint: Fingerprint

    def __call__(
        self, node: Node, certain: Sequence[AssignedPod], perhaps: Sequence[AssignedPod]
    ) -> frozenset[PodName] | None:
        """Return the names of the pods that it covers; None if no choice of these pods matches."""
        sure, others = self._names(node, certain), self._names(node, perhaps)
        accounted = fingerprints.accounted(self.fingerprint, sure, others)
        return None if accounted is None else accounted.union(sure)

    def _names(self, node: Node, pods: Iterable[AssignedPod]) -> list[PodName]:
        """Return the pods that its exporter would include; some omit those without resources."""
        if self.fingerprint.method is Method.ALL:
            return [pod.name for pod in pods]
        return [pod.name for pod in pods if pod.demand is None or exclusive(node, pod.demand)]
