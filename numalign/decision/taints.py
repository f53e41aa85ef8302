"""
What a pod has to request if it tolerates a taint of nodes that are reserved for aligned pods.

Before kubelets had managers it was proposed to taint such nodes with `CPUAffinity=dedicated`,
`NUMACPUAffinity=strict` and `NUMAMemoryPolicy=strict` or `preferred`, and that pods which tolerate them
request what the taint means (Derek Carr, CPU Affinity and NUMA Topology Awareness, 2016). No kubelet checks
it. A pod that tolerates a taint by name declares that it is for such nodes; if its requests contradict that,
one of both is a mistake, wherever it runs. One table has the demands of each taint.

A toleration without a key tolerates everything, as DaemonSets have it, and says nothing about its pod; one of
a key without a value means only what all taints of that key demand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from numalign.model.constraints import Tolerating, Toleration
from numalign.model.demand import Demand
from numalign.model.errors import cut
from numalign.model.intent import POLICY, RESOURCES, Intent, Policy
from numalign.model.pod import Role
from numalign.model.resources import CPU, MEMORY

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class TaintContradiction:
    """A taint, as `key=value`, that a pod tolerates; what the pod `lacks` for it, and what to change."""

    taint: str
    lacks: str
    change: str

    @property
    def warning(self) -> str:
        """The short text of a warning."""
        return f"it tolerates {self.taint}, but {self.lacks}"

    @property
    def refusal(self) -> str:
        """The full text of a refusal: two sentences."""
        change = f"{self.change[0].upper()}{self.change[1:]}"
        return f"{self.warning}. {change}, or remove the toleration."


def contradictions(
    demand: Demand, intent: Intent, tolerations: Iterable[Toleration]
) -> tuple[TaintContradiction, ...]:
    """Return what a pod lacks for the taints that it tolerates by name, each taint once."""
    # What kubelets give a pod with pod-level resources is not known, so it contradicts nothing.
    if demand.pod_level is not None:
        return ()
    named = frozenset[_Taint]().union(*map(_named, tolerations))
    return tuple(
        TaintContradiction("=".join(taint), lacks, change)
        for taint, change in _CHANGES.items()
        if taint in named and (lacks := _lacking(taint, demand, intent))
    )


_Taint = tuple[str, str]  # Key and value.


def _named(toleration: Toleration) -> frozenset[_Taint]:
    """Return the taints that a toleration certainly means."""
    of_key = [taint for taint in _CHANGES if taint[0] == toleration.key]
    if toleration.operator is Tolerating.EQUAL:
        return frozenset(taint for taint in of_key if taint[1] == toleration.value)
    # A toleration of all values may use the node with the least demands.
    least = toleration.operator is Tolerating.EXISTS and len(of_key) == 1
    return frozenset(of_key if least else ())


def _lacking(taint: _Taint, demand: Demand, intent: Intent) -> str | None:
    if taint == _DEDICATED:
        # Long-running containers; init containers end.
        sharing = next((step for step in demand.steps if step.role is not Role.INIT and not step.cpu), None)
        if sharing is None:
            return None
        return f'{sharing.role} "{cut(sharing.container, _LONGEST_NAME)}" gets no exclusive CPUs'
    # Memory of nodes that only prefer it may come from other zones.
    if taint == _PREFERRED:
        return None
    resource = CPU if taint == _STRICT_CPUS else MEMORY
    if intent.policy is Policy.NONE:
        return "it requests no alignment"
    if not intent.binding:
        return f"it requests only {intent.policy}"
    if not intent.concerns(resource):
        return f"{RESOURCES} leaves out {resource}"
    if any(step.cpu if resource == CPU else step.memory for step in demand.steps):
        return None
    qos = f"the pod is {demand.qos}, not Guaranteed"
    return "no container gets exclusive CPUs" if resource == CPU else qos


_DEDICATED = ("CPUAffinity", "dedicated")
_STRICT_CPUS = ("NUMACPUAffinity", "strict")
_STRICT_MEMORY = ("NUMAMemoryPolicy", "strict")
_PREFERRED = ("NUMAMemoryPolicy", "preferred")

_EQUAL = "set equal requests and limits and whole CPUs in every container"


def _set(resource: str) -> str:
    binding = f"{Policy.SINGLE_NUMA_NODE} or {Policy.RESTRICTED}"
    return f"set {POLICY} to {binding}, add {resource} to {RESOURCES} or remove that annotation, and {_EQUAL}"


_CHANGES: Mapping[_Taint, str] = MappingProxyType(
    {_DEDICATED: _EQUAL, _STRICT_CPUS: _set(CPU), _STRICT_MEMORY: _set(MEMORY), _PREFERRED: ""}
)
"""What to change in a pod that lacks what a taint demands."""

KEYS = tuple(dict.fromkeys(key for key, _ in _CHANGES))
"""The keys of these taints."""
