"""
Why a node cannot take a pod, as the scheduler shows it.

kube-scheduler counts nodes by the text of their reason and prints `0/40 nodes are available: 12 node(s) ...`
(k8s.io/kubernetes, pkg/scheduler/framework/types.go, FitError).
"""

from numalign.decision import wording
from numalign.decision.verdict import Verdict
from numalign.model.constraints import Unmet

UNKNOWN = f"node(s) {wording.NO_TOPOLOGY}, and the pod requests NUMA alignment (numalign)"
"""Of a node that nobody knows, for a pod that must be aligned."""

WAITING = "node(s) are still admitting pods that were bound earlier (numalign)"
"""Of a node where it is open which pod comes first."""


def reason(verdict: Verdict) -> str:
    """Return the reason of a refusal; raises `ValueError` for a verdict that is none."""
    words = wording.reason(verdict)
    return f"node(s) {words} (numalign: {verdict.refusal.policy})" if verdict.refusal else words


def kept_away(unmet: Unmet) -> str:
    """Return the reason of a node that the pod may not go to, whatever it has."""
    return f"node(s) {unmet}"
