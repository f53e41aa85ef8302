"""
Turn an observation into what is published of a node: its NodeResourceTopology's fields and annotations.

This module reads and writes nothing. The zones are those that any exporter publishes, for all programs that
read topologies. The annotations have what zones cannot express: the machine itself, and what each pod holds,
by UID.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.amounts import AmountRow, SeenDevices, held_by, places, zone_amounts, zone_cpus, zone_name
from agent.identities import KeptPod, identified
from agent.observation import Observation
from numalign.kube.decode import fingerprints, kubelet_reports
from numalign.kube.decode.fingerprints import Method
from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS, BadReport, ObservedPlacement
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.kube.decode.nrt import AMOUNTS, GROUP, KIND, VERSIONS
from numalign.kubelet.validation import MAX_ZONES
from numalign.model.bitset import union
from numalign.model.errors import Mistake
from numalign.model.placement import Held
from numalign.model.resources import Resources, ZoneId, render

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedPlacement:
    """What one pod holds, and its identity."""

    uid: str
    namespace: str
    name: str
    held: Held


@dataclass(frozen=True, slots=True)
class NodeReport:
    """
    What is published of a node.

    An annotation is None if it must not be set; `mistakes` has the reason. `left_out` counts the pods for
    which it is uncertain what they hold.
    """

    zones: list[JsonObject]
    attributes: list[JsonObject]
    annotations: Mapping[str, str | None]
    pods: tuple[NamedPlacement, ...]
    left_out: int
    mistakes: tuple[Mistake, ...] = ()


def report(observation: Observation, before: SeenDevices) -> tuple[NodeReport, SeenDevices]:
    """Return the report of an observation, given the devices seen before; and those seen by now."""
    pods = identified(observation)
    seen = before.plus(observation, pods)
    cpus = zone_cpus(observation.hardware)
    placements = {pod.pod.uid: (pod, held_by(pod, cpus, seen)) for pod in pods if pod.pod is not None}
    observed = {uid: ObservedPlacement(held, pod.cpus) for uid, (pod, held) in placements.items()}
    machine = _machine(observation, seen)
    mistakes: list[Mistake] = []
    writers: Mapping[str, Callable[[], str]] = {
        MACHINE: lambda: kubelet_reports.write_machine(machine, dict(observation.kubelet)),
        PLACEMENTS: lambda: kubelet_reports.write_placements(observed),
    }
    annotations = {annotation: _text(annotation, write, mistakes) for annotation, write in writers.items()}
    made = NodeReport(
        [*_zones(observation, zone_amounts(observation, pods, seen))],
        [{"name": name, "value": value} for name, value in _attributes(observation, pods)],
        annotations,
        tuple(
            NamedPlacement(uid, pod.listed.namespace, pod.listed.name, held)
            for uid, (pod, held) in placements.items()
        ),
        left_out=len(pods) - len(placements),
        mistakes=tuple(mistakes),
    )
    return made, seen


def document(node: str, report: NodeReport) -> JsonObject:
    """Return the topology of a node, without the parts that are known only when it is written."""
    annotations = {annotation: text for annotation, text in report.annotations.items() if text is not None}
    return {
        "apiVersion": f"{GROUP}/{VERSIONS[0]}",
        "kind": KIND,
        "metadata": {"name": node, "annotations": annotations},
        "attributes": report.attributes,
        "zones": report.zones,
    }


def _text(annotation: str, write: Callable[[], str], mistakes: list[Mistake]) -> str | None:
    """Return an annotation, or None after adding the reasons to `mistakes`."""
    try:
        return write()
    except BadReport as error:
        mistakes.extend(mistake.under(annotation) for mistake in error.mistakes)
        return None


def _machine(observation: Observation, seen: SeenDevices) -> DescribedMachine:
    hardware, allocatable = observation.hardware, observation.allocatable.cpus
    every = union(core.threads for core in hardware.cores)
    return DescribedMachine(
        _banks(observation),
        hardware.cores,
        # Without a CPU manager no CPU is reported as allocatable, and none is reserved.
        reserved=every & ~allocatable if allocatable else None,
        devices=tuple(places(seen).items()),
    )


def _banks(observation: Observation) -> tuple[ZoneMemory, ...]:
    """
    Return the memory of each zone, with the hugepages that it had when the kubelet started.

    The kubelet does not read the machine again (NewManager of cm/memorymanager/memory_manager.go), and
    allocates what it read, whatever pages the kernel has created since. It does not report reserved pages: if
    there are any, the kernel's current numbers are used.
    """
    banks, blocks = observation.hardware.banks, observation.allocatable.memory
    if not blocks or "hugepages-" in repr(observation.kubelet.get("reservedMemory")):
        return banks
    sizes: Counter[tuple[ZoneId, str]] = Counter()
    for block in blocks:
        for zone in block.zones[:1]:
            sizes[zone, block.resource] += block.size
    return tuple(
        replace(bank, huge=Resources({name: sizes[bank.zone, name] for name in bank.huge})) for bank in banks
    )


def _zones(
    observation: Observation, amounts: Mapping[ZoneId, Mapping[str, AmountRow]]
) -> Iterator[JsonObject]:
    zones = [bank.zone for bank in observation.hardware.banks]
    for bank in observation.hardware.banks:
        yield {
            "name": zone_name(bank.zone),
            "type": "Node",
            **_costs(bank, zones),
            "resources": [
                {"name": name, **_quantities(name, row)} for name, row in amounts[bank.zone].items()
            ],
        }


def _quantities(name: str, row: AmountRow) -> dict[str, str]:
    return {field: render(name, amount) for field, amount in zip(AMOUNTS, row, strict=True)}


def _costs(bank: ZoneMemory, zones: list[ZoneId]) -> JsonObject:
    """Return the distances to all zones, if the kernel reports them."""
    if not bank.distances:
        return {}
    pairs = zip(zones, bank.distances, strict=True)
    return {"costs": [{"name": zone_name(zone), "value": distance} for zone, distance in pairs]}


_POLICY, _SCOPE, _OPTIONS = "topologyManagerPolicy", "topologyManagerScope", "topologyManagerPolicyOptions"


def _attributes(observation: Observation, pods: tuple[KeptPod, ...]) -> Iterator[tuple[str, str]]:
    """Yield how the kubelet aligns, in its own terms, and which pods the amounts account for."""
    for name in (_POLICY, _SCOPE):
        if value := observation.kubelet.get(name):
            yield name, str(value)
    options = observation.kubelet.get(_OPTIONS)
    for option, value in sorted(options.items()) if isinstance(options, Mapping) else ():
        yield f"topologyManagerOption{_camel(option)}", str(value)
        if option == MAX_ZONES:
            yield "topologyManagerMaxNUMANodes", str(value)
    names = ((pod.listed.namespace, pod.listed.name) for pod in pods)
    yield "nodeTopologyPodsFingerprint", fingerprints.fingerprint(names)
    yield "nodeTopologyPodsFingerprintMethod", str(Method.ALL)


def _camel(option: str) -> str:
    """Return `prefer-closest-numa-nodes` as `PreferClosestNumaNodes`."""
    return re.sub(r"(?:^|-)([a-z0-9]?)", lambda match: match[1].upper(), option)
