"""Select pods by namespace and by labels, like kubectl's -n, -A and -l."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_numa.clusters import ClusterSource
from numalign.kube.selectors import EVERYTHING, LabelSelector


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods of a `namespace`, or of all with `everywhere`, whose labels match the `selector`.

    If both are given, all namespaces are selected, as in kubectl.
    """

    namespace: str | None = None
    everywhere: bool = False
    selector: LabelSelector = EVERYTHING

    @property
    def given(self) -> bool:
        """Return whether anything was specified."""
        return self != PodSelection()

    def resolved(self, source: ClusterSource) -> "PodSelection":
        """Return the same with the namespace of the context, if none was given; raise `ClusterError`.

        A snapshot file has no context, so all its namespaces are selected.
        """
        if self.namespace or self.everywhere:
            return self
        if not source.has_context:
            return PodSelection(everywhere=True, selector=self.selector)
        return PodSelection(source.namespace(None).name, selector=self.selector)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod in this namespace with these labels is selected."""
        return (self.everywhere or self.namespace in {None, namespace}) and self.selector.matches(labels)
