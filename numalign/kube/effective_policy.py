"""
What is requested for the pods in each namespace: by its labels, and by the cluster's own policy.

Webhook, scorer and `kubectl numa` get namespaces in different ways, and must interpret them equally.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from numalign.cache.pod_question import PodQuestion
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.intent import ADMISSION, UNRULED, Admission, NamespaceRules
from numalign.shapes.hints import NOTHING_KNOWN

DISABLED = f"its namespace is labelled {ADMISSION}: {Admission.DISABLED}"

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Namespaces(Protocol):
    """A source of namespaces by name, and of what no kubelet of their cluster aligns."""

    @property
    def namespaces(self) -> Mapping[str, NamespaceRules]:
        """The rules in the labels of each namespace, by name."""

    @property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """All labels of each namespace, by name."""

    @property
    def unhinted(self) -> frozenset[str]:
        """The resources for which no known kubelet generates hints."""


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The cluster's policy, and by namespace the rules of its own labels, and all of its labels.

    A pod meets the levels of its namespace without naming what is `unhinted`.
    """

    policy: ClusterPolicy = NO_POLICY
    rules: Mapping[str, NamespaceRules] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unhinted: frozenset[str] = NOTHING_KNOWN

    @classmethod
    def of(cls, cluster: Namespaces, policy: ClusterPolicy = NO_POLICY) -> "EffectivePolicy":
        """Return the effective policy in a cluster with these namespaces."""
        return cls(policy, cluster.namespaces, cluster.namespace_labels, cluster.unhinted)

    def rules_for(self, namespace: str) -> NamespaceRules:
        """Return the rules for the pods in a namespace; for an unknown one, those of the policy.

        Without a namespace, nothing is known of where pods will be, and there are none.
        """
        if not namespace:
            return UNRULED
        own = self.rules.get(namespace, UNRULED)
        return self.policy.rules_for(own, self.labels.get(namespace, _NO_LABELS), namespace)

    def exclusive_cpus(self, namespace: str) -> int | None:
        """Return how many exclusive CPUs the pods of a namespace may hold together; None without a limit.

        `ADMISSION` does not lift it, nor a RuntimeClass: whoever creates pods may write both.
        """
        if namespace in self.policy.exemptions.namespaces:
            return None
        return self.rules_for(namespace).exclusive_cpus

    @property
    def exempts_users(self) -> bool:
        """Whether a pod may have been admitted whatever it contains, as it is not known who created it."""
        return bool(self.policy.exemptions.users)

    def placed(self, pod: PodQuestion) -> PodQuestion:
        """Return what a pod requests of nodes: no less than its namespace enforces.

        Its annotations, or the level, may have been changed since admission.
        """
        return pod if self.exempts_users else pod.raised()

    def exemption(self, namespace: str, *, runtime_class: str, user: str = "") -> str | None:
        """Return why a pod is exempt, whatever it contains; None if it is not."""
        if self.rules.get(namespace, UNRULED).disabled:
            return DISABLED
        return self.policy.exempts(user=user, namespace=namespace, runtime_class=runtime_class)
