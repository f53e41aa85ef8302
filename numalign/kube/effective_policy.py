"""
What is asked of the pods in each namespace: by its labels, and by the cluster's own policy.

Webhook, scorer and `kubectl numa` hear of namespaces in different ways, and must mean the same by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from numalign.kube.cluster_state import Snapshot
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.intent import ADMISSION, UNRULED, Admission, NamespaceRules

DISABLED = f"its namespace is labelled {ADMISSION}: {Admission.DISABLED}"

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The cluster's policy, and by namespace the rules that its own labels state, and all of its labels."""

    policy: ClusterPolicy = NO_POLICY
    rules: Mapping[str, NamespaceRules] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Snapshot, policy: ClusterPolicy = NO_POLICY) -> "EffectivePolicy":
        """What holds in a cluster as it was found."""
        return cls(policy, found.namespaces, found.namespace_labels)

    def rules_for(self, namespace: str) -> NamespaceRules:
        """What is asked of the pods in a namespace; one that is not known is asked what the policy asks."""
        own = self.rules.get(namespace, UNRULED)
        return self.policy.rules_for(own, self.labels.get(namespace, _NO_LABELS), namespace)

    def exemption(self, namespace: str, *, runtime_class: str, user: str = "") -> str | None:
        """Why a pod is left alone, whatever it says; None if it is not."""
        if self.rules.get(namespace, UNRULED).disabled:
            return DISABLED
        return self.policy.exempts(user=user, namespace=namespace, runtime_class=runtime_class)
