"""
The reasons why a node cannot take a pod, as the scheduler shows them.

kube-scheduler counts nodes by the text of their reason and prints `0/40 nodes are available: 12 node(s) ...`
(k8s.io/kubernetes, pkg/scheduler/framework/types.go, FitError).
"""

from numalign.decision import wording
from numalign.decision.verdict import Verdict
from numalign.model.constraints import Unmet

UNKNOWN = f"node(s) {wording.NO_TOPOLOGY}, and the pod requests NUMA alignment (numalign)"
"""For a node without a topology, and a pod that must be aligned."""

WAITING = "node(s) are still admitting pods that were bound earlier (numalign)"
"""For a node where it is not certain which pod comes first."""

POD_GROUP = "node(s) have no NUMA zone left beside other pods of the pod group (numalign)"
"""For a node that takes a pod by itself, but not after the other members of its group."""


def reason(verdict: Verdict) -> str:
    """Return the reason of a refusal; raise `ValueError` for any other verdict."""
    words = wording.reason(verdict)
    return f"node(s) {words} (numalign: {verdict.refusal.policy})" if verdict.refusal else words


def over_quota(why: str) -> str:
    """Return the reason of every node for a pod that has to wait for the quota of its namespace."""
    return f"node(s) beyond the quota: {why} (numalign)"


def kept_away(unmet: Unmet) -> str:
    """Return the reason of a node where the pod may not run, whatever it has."""
    return f"node(s) {unmet}"
