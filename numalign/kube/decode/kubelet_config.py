"""
A kubelet's own configuration, stored in a snapshot under the name of its node.

It has what an exporter lacks: the managers by name instead of derived from their absence, their options, and
what is reserved for the system. Only fields that are set count; the rest is as in the node's topology,
because both were read from the same kubelet.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from numalign.kube.decode.parts import Part, named
from numalign.kubelet.validation import MAX_ZONES, Reserved
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.node import CpuManager, MemoryManager
from numalign.model.options import (
    BETA_SINCE,
    NEWEST,
    STRATEGY,
    UNRELEASED,
    WEIGHTS,
    CpuOption,
    FeatureGate,
    NumaStrategy,
    TopologyOption,
)
from numalign.model.resources import CPU, EMPTY, MEMORY, MILLI, Kind, Resources, ZoneId, kind

GROUP = "kubelet.config.k8s.io"
KIND = "KubeletConfiguration"

FIELDS = (
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "evictionHard", "featureGates", "kubeReserved",
    "memoryManagerPolicy", "mergeDefaultEvictionSettings", "reservedMemory", "reservedSystemCPUs",
    "systemReserved", "topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope",
)  # fmt: skip
"""The fields that are read of a configuration, and so kept; it also contains paths and addresses."""

MOST_UNKNOWN, LONGEST_UNKNOWN = 16, 128
"""How many unknown options are kept by name, as a newer kubelet may have them, and characters of each."""

MOST_WEIGHT, MOST_WEIGHTS = 100, 64
"""The largest weight in numa-score-weights, and the limit of weights: each counts in every choice. Beyond
either, their value is not known."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
# The texts that Go's strconv.ParseBool accepts.
_SWITCHES: Mapping[str, bool] = MappingProxyType(
    {
        **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
        **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
    }
)

# The kubelet's default on Linux (DefaultEvictionHard of eviction/defaults_linux.go).
_DEFAULT_THRESHOLD = 100 * 2**20
# The resources that cmd/kubelet/app/server.go accepts (parseResourceList).
_RESERVABLE = (CPU, MEMORY, "ephemeral-storage", "pid")


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Feature gates as set: by name, and with all others of their stage."""

    named: frozenset[FeatureGate] = frozenset()
    named_off: frozenset[FeatureGate] = frozenset()
    all_alpha: bool = False
    all_beta: bool = False

    def on(self, minor: int | None) -> frozenset[FeatureGate]:
        """Return the gates that are on in a minor version, in the newest if it is not known."""
        version = NEWEST if minor is None else minor
        staged = (
            gate
            for gate in FeatureGate
            if (self.all_beta if version >= BETA_SINCE.get(gate, math.inf) else self.all_alpha)
        )
        return self.named | frozenset(staged) - self.named_off


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """The settings of one kubelet; None, or empty, if not set.

    `cpu_options` are on, `cpu_options_off` are explicitly off. `unreleased_options` are set, to whatever, and
    no kubelet was released with them; `unknown_options`, or their values, are not known here.
    `strategy` and `weights` are those of numa-allocation-strategy and numa-score-weights. `reserved_cpus` are
    those set by id; `kept_cpus` is the number of CPUs in kubeReserved and systemReserved together, rounded
    up; `reserved` is the reserved memory, by zone and in total.
    """

    name: str
    policy: Policy | None = None
    scope: Scope | None = None
    cpu_manager: CpuManager | None = None
    memory_manager: MemoryManager | None = None
    max_zones: int | None = None
    cpu_options: frozenset[CpuOption] = frozenset()
    cpu_options_off: frozenset[CpuOption] = frozenset()
    topology_options: frozenset[TopologyOption] = frozenset()
    strategy: NumaStrategy = NumaStrategy.NONE
    weights: tuple[tuple[str, int], ...] = ()
    unreleased_options: frozenset[str] = frozenset()
    unknown_options: frozenset[str] = frozenset()
    gates: FeatureGates = FeatureGates()
    reserved_cpus: CpuSet | None = None
    kept_cpus: int = 0
    reserved: Reserved | None = None


def kubelet_configuration(raw: Mapping[str, object]) -> KubeletConfiguration:
    """Return the configuration of the node in `metadata.name`; raise `BadTopology` with every mistake."""
    part = Part(raw)
    read = configuration(part, part["metadata"]["name"].required_text())
    part.raise_mistakes(BadTopology)
    return read


def configuration(part: Part, name: str) -> KubeletConfiguration:
    """Return the configuration of the node with this name; mistakes are left in the part."""
    policy = part["topologyManagerPolicy"].one_of(Policy)
    # What is reserved on the node as a whole, for the kubelet and for the system.
    system = EMPTY
    for reserved in (part["kubeReserved"], part["systemReserved"]):
        system = system.plus(reserved.amounts())
        for resource, member in reserved.members():
            if resource not in _RESERVABLE:
                member.wrong(f"cannot be reserved: only {', '.join(_RESERVABLE)} can")
    # Under policy none the kubelet ignores these, whatever they are.
    topology_options = Part(None) if policy is Policy.NONE else part["topologyManagerPolicyOptions"]
    cpu_options = part["cpuManagerPolicyOptions"]
    cpu, topology = _switches(cpu_options, CpuOption), _switches(topology_options, TopologyOption)
    chosen = _text(topology_options[STRATEGY])
    strategy = NumaStrategy(chosen or NumaStrategy.NONE) if chosen in {"", *NumaStrategy} else None
    weights = _weights(_text(topology_options[WEIGHTS]))
    max_zones = topology_options[MAX_ZONES].integer()
    valued = {STRATEGY: strategy, WEIGHTS: weights, MAX_ZONES: ...}
    unknown = [*_unknown(cpu_options, cpu), *_unknown(topology_options, {**topology, **valued})]
    return KubeletConfiguration(
        name,
        policy=policy,
        scope=part["topologyManagerScope"].one_of(Scope),
        cpu_manager=part["cpuManagerPolicy"].one_of(CpuManager),
        memory_manager=part["memoryManagerPolicy"].one_of(MemoryManager),
        max_zones=max_zones,
        cpu_options=frozenset(option for option in CpuOption if cpu.get(option) is True),
        cpu_options_off=frozenset(option for option in CpuOption if cpu.get(option) is False),
        topology_options=frozenset(option for option in TopologyOption if topology.get(option)),
        strategy=strategy or NumaStrategy.NONE,
        weights=weights or (),
        unreleased_options=frozenset(name for name, _ in topology_options.members() if name in UNRELEASED),
        unknown_options=frozenset(sorted(unknown)[:MOST_UNKNOWN]),
        gates=_gates(part["featureGates"]),
        reserved_cpus=part["reservedSystemCPUs"].cpu_list(),
        kept_cpus=-(-system.get(CPU, 0) // MILLI),
        reserved=_reserved(part, system.get(MEMORY, 0)),
    )


def _switches(listed: Part, options: Iterable[str]) -> Mapping[str, bool | None]:
    """Return whether these options are on, of those that are set; None if an unreleased one is neither."""
    known, read = {*options}, dict[str, bool | None]()
    for name, part in listed.members():
        if name in known and name in UNRELEASED:
            read[name] = _SWITCHES.get(_text(part) or "")
        elif name in known:
            text = part.text()
            if part.value is not None and text not in _SWITCHES:
                part.wrong(f'{named(text)} is neither "true" nor "false"')
            read[name] = _SWITCHES.get(text, False)
    return read


def _unknown(listed: Part, read: Mapping[str, object]) -> Iterator[str]:
    """Yield the options that are not known, and unreleased ones whose value is not, with the value.

    What a newer kubelet may mean by one must not make the rest of its configuration unreadable.
    """
    for name, part in listed.members():
        text = _text(part)
        if name not in read:
            yield name[:LONGEST_UNKNOWN]
        elif read[name] is None:
            wrong = f": must be a string, not {named(part.value)}" if text is None else f"={text}"
            yield f"{name}{wrong}"[:LONGEST_UNKNOWN]


def _text(part: Part) -> str | None:
    """Return the value of an option, empty if it is absent; None if it is no text."""
    return part.value if isinstance(part.value, str) else None if part.value is not None else ""


def _weights(text: str | None) -> tuple[tuple[str, int], ...] | None:
    """Return the weights in a text such as "cpu=3,nvidia.com/gpu=6"; None if it is no such text."""
    read = dict[str, int]()
    if text is None:
        return None
    # Empty entries, as behind a last comma, say nothing.
    for entry in filter(str.strip, text.split(",")):
        name, _, weight = map(str.strip, entry.partition("="))
        if not name or not _NUMBER.fullmatch(weight) or not 0 <= int(weight) <= MOST_WEIGHT:
            return None
        read[name] = int(weight)
        if len(read) > MOST_WEIGHTS:
            return None
    return tuple(sorted(read.items()))


def _gates(listed: Part) -> FeatureGates:
    named = {gate: listed[gate].boolean() for gate in FeatureGate}
    # The last two are of setUnsetAlphaGates and setUnsetBetaGates of k8s.io/component-base/featuregate.
    return FeatureGates(
        frozenset(gate for gate, on in named.items() if on is True),
        frozenset(gate for gate, on in named.items() if on is False),
        all_alpha=listed["AllAlpha"].boolean() or False,
        all_beta=listed["AllBeta"].boolean() or False,
    )


def _reserved(configuration: Part, system: int) -> Reserved | None:
    # Below this memory pods are evicted; it is None if it is a share of the node's.
    threshold: int | None = _DEFAULT_THRESHOLD
    hard, merged = configuration["evictionHard"], configuration["mergeDefaultEvictionSettings"].boolean()
    least = hard["memory.available"]
    if hard.value is not None and not (merged and least.value is None):
        shared = isinstance(least.value, str) and least.value.endswith("%")
        threshold = None if shared else least.amount(MEMORY) or 0
    listed = configuration["reservedMemory"]
    if listed.value is None:
        return None
    zones: dict[ZoneId, dict[str, int]] = {}
    for entry in listed.objects():
        number, limits = entry["numaNode"].required().integer(), entry["limits"].required()
        before, amounts = zones.setdefault(ZoneId(number or 0), {}), limits.amounts()
        for name, amount in amounts.items():
            if kind(name) is not Kind.MEMORY:
                limits[name].wrong("cannot be reserved on a zone: only memory and hugepages can")
            elif not amount:
                limits[name].wrong("is zero: remove it")
        for name in sorted(before.keys() & amounts.keys()):
            limits[name].wrong(f"is reserved on zone {number} twice")
        before.update(amounts)
    by_zone = MappingProxyType({zone: Resources(amounts) for zone, amounts in zones.items()})
    return Reserved(by_zone, None if threshold is None else system + threshold)
