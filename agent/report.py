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
from agent.observation import Hardware, Observation
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
    hardware, allocatable = observation.hardware, observation.allocatable.cpus
    machine = DescribedMachine(
        _banks(observation),
        hardware.cores,
        # Without a CPU manager no CPU is reported as allocatable, and none is reserved.
        reserved=union(core.threads for core in hardware.cores) & ~allocatable if allocatable else None,
        devices=tuple(places(seen).items()),
    )
    writers: Mapping[str, Callable[[], str]] = {
        MACHINE: lambda: kubelet_reports.write_machine(machine, dict(observation.kubelet)),
        PLACEMENTS: lambda: kubelet_reports.write_placements(observed),
    }
    annotations = dict[str, str | None]()
    mistakes: list[Mistake] = []
    for annotation, write in writers.items():
        try:
            annotations[annotation] = write()
        except BadReport as error:
            annotations[annotation] = None
            mistakes.extend(mistake.under(annotation) for mistake in error.mistakes)
    made = NodeReport(
        _zones(hardware, zone_amounts(observation, pods, seen)),
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


def _zones(hardware: Hardware, amounts: Mapping[ZoneId, Mapping[str, AmountRow]]) -> list[JsonObject]:
    names = [zone_name(bank.zone) for bank in hardware.banks]
    zones: list[JsonObject] = []
    for name, bank in zip(names, hardware.banks, strict=True):
        zone: JsonObject = {"name": name, "type": "Node"}
        # The kernel may report no distances.
        if bank.distances:
            pairs = zip(names, bank.distances, strict=True)
            zone["costs"] = [{"name": other, "value": distance} for other, distance in pairs]
        zone["resources"] = [
            {"name": resource}
            | {field: render(resource, amount) for field, amount in zip(AMOUNTS, row, strict=True)}
            for resource, row in amounts[bank.zone].items()
        ]
        zones.append(zone)
    return zones


def _attributes(observation: Observation, pods: tuple[KeptPod, ...]) -> Iterator[tuple[str, str]]:
    """Yield how the kubelet aligns, in its own terms, and which pods the amounts account for."""
    for name in ("topologyManagerPolicy", "topologyManagerScope"):
        if value := observation.kubelet.get(name):
            yield name, str(value)
    options = observation.kubelet.get("topologyManagerPolicyOptions")
    for option, value in sorted(options.items()) if isinstance(options, Mapping) else ():
        # `prefer-closest-numa-nodes` as `PreferClosestNumaNodes`.
        camel = re.sub(r"(?:^|-)([a-z0-9]?)", lambda match: match[1].upper(), option)
        yield f"topologyManagerOption{camel}", str(value)
        if option == MAX_ZONES:
            yield "topologyManagerMaxNUMANodes", str(value)
    names = ((pod.listed.namespace, pod.listed.name) for pod in pods)
    yield "nodeTopologyPodsFingerprint", fingerprints.fingerprint(names)
    yield "nodeTopologyPodsFingerprintMethod", str(Method.ALL)
