"""Which pods of a node the fingerprint in its topology stands for."""

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
        """The names of the pods that it stands for; None if no choice of these pods has it."""
        sure, others = self._names(node, certain), self._names(node, perhaps)
        accounted = fingerprints.accounted(self.fingerprint, sure, others)
        return None if accounted is None else accounted.union(sure)

    def _names(self, node: Node, pods: Iterable[AssignedPod]) -> list[PodName]:
        """The pods that its exporter would have put into it; some leave out those without resources."""
        if self.fingerprint.method is Method.ALL:
            return [pod.name for pod in pods]
        return [pod.name for pod in pods if pod.demand is None or exclusive(node, pod.demand)]
