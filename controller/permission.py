"""
What a namespace allows now, read from the API server right before a pod in it is deleted or evicted.

The watch may be slightly outdated, and a plan takes many calls: a label that was removed meanwhile counts.
"""

from numalign.kube import late_namespaces
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.late_namespaces import NamespaceReader


async def current_policy(api: NamespaceReader, cluster: ClusterPolicy, namespace: str) -> EffectivePolicy:
    """Return the policy of one namespace by its current labels; raise `ClusterError`."""
    facts = await late_namespaces.read(api, namespace)
    return EffectivePolicy(cluster, {namespace: facts.rules}, {namespace: facts.labels})
