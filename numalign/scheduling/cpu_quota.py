"""
The limit of exclusive CPUs of a namespace, and what its pods use of it.

What counts is what the kubelet of its node pins for a pod, or may pin as far as is known. Pods on a node use
it until they end, whoever bound them, and so do reservations. Pods that wait use nothing.
"""

from dataclasses import dataclass

UNCOUNTED = "the exclusive CPUs of the pod cannot be counted: its requests are invalid or too large"
"""Why a pod has to wait whose containers cannot be read, while its namespace has a limit."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """How many exclusive CPUs of its limit a namespace uses, both in whole CPUs."""

    namespace: str
    used: int
    limit: int

    def admits(self, cpus: int) -> bool:
        """Return whether a pod that requests so many exclusive CPUs stays within the limit."""
        return not cpus or self.used + cpus <= self.limit

    def why_not(self, cpus: int) -> str:
        """Return why a pod that requests so many has to wait, in words; empty if it has not."""
        if self.admits(cpus):
            return ""
        used = f"{self.used} of {self.limit} exclusive CPUs of namespace {self.namespace} are in use"
        return f"{used}, and the pod requests {cpus}"
