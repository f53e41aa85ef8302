"""Which pods are meant: by namespace and by labels, as kubectl's -n, -A and -l say it."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_numa.clusters import ClusterSource
from numalign.kube.selectors import EVERYTHING, LabelSelector


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods of a `namespace`, or of all with `everywhere`, whose labels the `selector` selects.

    Where both are asked for, all are meant, as for kubectl.
    """

    namespace: str | None = None
    everywhere: bool = False
    selector: LabelSelector = EVERYTHING

    @property
    def given(self) -> bool:
        """Whether anything was asked for."""
        return self != PodSelection()

    def resolved(self, source: ClusterSource) -> "PodSelection":
        """The same with the namespace of the context, if none was given; raises `ClusterError`.

        A snapshot file has no context, so there all namespaces are meant.
        """
        if self.namespace or self.everywhere:
            return self
        if not source.has_context:
            return PodSelection(everywhere=True, selector=self.selector)
        return PodSelection(source.namespace(None).name, selector=self.selector)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod there with these labels is meant."""
        return (self.everywhere or self.namespace in {None, namespace}) and self.selector.matches(labels)
