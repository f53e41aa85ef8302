"""
A kubelet's own configuration, which rides along in a snapshot under the name of its node.

It tells what an exporter cannot: the managers by name in place of what their absence suggests. Only what is
written counts; the rest stays as the node's topology has it, for both were read off the same kubelet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.cluster.parts import Part
from numalign.rules.errors import BadTopology
from numalign.rules.intent import Policy, Scope
from numalign.rules.topology import DEFAULT_MAX_ZONES, CpuManager, MemoryManager

GROUP = "kubelet.config.k8s.io"
KIND = "KubeletConfiguration"

_MAX_ZONES = "max-allowable-numa-nodes"


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """What one kubelet was told; None where it was told nothing."""

    name: str
    policy: Policy | None = None
    scope: Scope | None = None
    cpu_manager: CpuManager | None = None
    memory_manager: MemoryManager | None = None
    max_zones: int | None = None


def kubelet_configuration(raw: Mapping[str, object]) -> KubeletConfiguration:
    """The configuration of the node that `metadata.name` tells; raises `BadTopology` with every mistake."""
    whole = Part(raw)
    options = whole["topologyManagerPolicyOptions"]
    read = KubeletConfiguration(
        whole["metadata"]["name"].needed_text(),
        policy=whole["topologyManagerPolicy"].word(Policy),
        scope=whole["topologyManagerScope"].word(Scope),
        cpu_manager=whole["cpuManagerPolicy"].word(CpuManager),
        memory_manager=whole["memoryManagerPolicy"].word(MemoryManager),
        # A kubelet does not start below its default (policy_options.go of the topology manager).
        max_zones=options[_MAX_ZONES].integer(least=DEFAULT_MAX_ZONES),
    )
    whole.settle(BadTopology)
    return read
