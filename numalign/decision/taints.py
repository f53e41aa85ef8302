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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from numalign.model.constraints import Tolerating, Toleration
from numalign.model.demand import Demand, Step
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


class _Demanded(NamedTuple):
    """What a pod lacks, None if nothing, and what to change then."""

    lacks: Callable[[Demand, Intent], str | None]
    change: str


def contradictions(
    demand: Demand, intent: Intent, tolerations: Iterable[Toleration]
) -> tuple[TaintContradiction, ...]:
    """Return what a pod lacks for the taints that it tolerates by name, each taint once.

    What kubelets give a pod with pod-level resources is not known, so it contradicts nothing.
    """
    if demand.pod_level is not None:
        return ()
    named = frozenset[_Taint]().union(*map(_named, tolerations))
    return tuple(
        TaintContradiction("=".join(taint), lacks, demanded.change)
        for taint, demanded in _DEMANDED.items()
        if taint in named and (lacks := demanded.lacks(demand, intent))
    )


_Taint = tuple[str, str]
"""Key and value."""


def _named(toleration: Toleration) -> frozenset[_Taint]:
    """Return the taints that a toleration certainly means."""
    of_key = [taint for taint in _DEMANDED if taint[0] == toleration.key]
    if toleration.operator is Tolerating.EQUAL:
        return frozenset(taint for taint in of_key if taint[1] == toleration.value)
    # A toleration of all values may use the node with the least demands.
    least = toleration.operator is Tolerating.EXISTS and len(of_key) == 1
    return frozenset(of_key if least else ())


def _shares_cpus(demand: Demand, _intent: Intent) -> str | None:
    """Return a long-running container without exclusive CPUs; init containers end."""
    sharing = next((step for step in demand.steps if step.role is not Role.INIT and not step.cpu), None)
    return f"{_subject(sharing)} gets no exclusive CPUs" if sharing else None


def _is_loose(resource: str, intent: Intent) -> str | None:
    if not intent.binding:
        requested = (
            "requests no alignment" if intent.policy is Policy.NONE else f"requests only {intent.policy}"
        )
        return f"it {requested}"
    return None if intent.concerns(resource) else f"{RESOURCES} leaves out {resource}"


def _strays_in_cpus(demand: Demand, intent: Intent) -> str | None:
    pinned = any(step.cpu for step in demand.steps)
    return _is_loose(CPU, intent) or (None if pinned else "no container gets exclusive CPUs")


def _strays_in_memory(demand: Demand, intent: Intent) -> str | None:
    pinned = any(step.memory for step in demand.steps)
    return _is_loose(MEMORY, intent) or (None if pinned else f"the pod is {demand.qos}, not Guaranteed")


def _subject(step: Step) -> str:
    return f'{step.role} "{cut(step.container, _LONGEST_NAME)}"'


def _change(resource: str) -> str:
    binding = f"{Policy.SINGLE_NUMA_NODE} or {Policy.RESTRICTED}"
    about = f"set {POLICY} to {binding}, add {resource} to {RESOURCES} or remove that annotation"
    return f"{about}, and set equal requests and limits and whole CPUs in every container"


_DEMANDED: Mapping[_Taint, _Demanded] = MappingProxyType(
    {
        ("CPUAffinity", "dedicated"): _Demanded(
            _shares_cpus, "set equal requests and limits and whole CPUs in every container"
        ),
        ("NUMACPUAffinity", "strict"): _Demanded(_strays_in_cpus, _change(CPU)),
        ("NUMAMemoryPolicy", "strict"): _Demanded(_strays_in_memory, _change(MEMORY)),
        # Memory of such nodes may come from other zones.
        ("NUMAMemoryPolicy", "preferred"): _Demanded(lambda _demand, _intent: None, ""),
    }
)

KEYS = tuple(dict.fromkeys(key for key, _ in _DEMANDED))
"""The keys of these taints."""
