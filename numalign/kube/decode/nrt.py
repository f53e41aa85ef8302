"""
NodeResourceTopology: what an exporter publishes about the zones of one node.

Exporters race with the kubelet, write their zones in any order, and name them by id or by position. Values
that are certainly not mistakes are accepted, and contradictions are refused with every mistake. But an odd
amount costs no more than itself: the zones of its resource are then uncertain, and the rest is known. So does
a zone without a number of its own, of all resources that it lists. The fields are those of the API of
github.com/k8stopologyawareschedwg/noderesourcetopology-api, in both its versions.

Every zone has its distance to every other one. So lists are measured before any is read, and an object with
more entries than a node has is refused at once, with that one mistake.

Nearly all lists are valid, and are read as a whole (`_plain_columns`, `_plain_costs`). Any other list is read
part by part, so that its mistakes have places.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from sys import intern
from types import MappingProxyType
from typing import Any

from numalign.kube.decode import fingerprints
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.koordinator import NO_FACTS, CpuFacts, cpu_facts
from numalign.kube.decode.parts import Part, amount_of, inner, inner_list, named
from numalign.model import resources
from numalign.model.errors import MOST_MISTAKES, BadQuantity, BadTopology, Mistake
from numalign.model.intent import LONGEST_NAME as LONGEST_RESOURCE
from numalign.model.intent import Policy, Scope
from numalign.model.machine import LARGEST_ZONE, MOST_CPUS
from numalign.model.node import DEFAULT_MAX_ZONES, Zone, ZoneCosts
from numalign.model.resources import CPU, MILLI, Kind, Resources, ZoneId, kind
from numalign.model.sharing import shared

GROUP = "topology.node.k8s.io"
KIND = "NodeResourceTopology"
VERSIONS = ("v1alpha2", "v1alpha1")
"""The versions that can be read, the preferred one first."""

MOST_ZONES = 64
"""The limit of zones with type Node. Linux supports 1,024; a kubelet that aligns starts with 8, and with more
if configured."""

MOST_ENTRIES = 4096
"""The limit for all zones together: distances, those of 64 zones to each other, and as many resources."""

MOST_ATTRIBUTES = 256
"""The limit for one node; there are half a dozen."""

LONGEST_NAME = 253
_MOST_MILLIS = MOST_CPUS * MILLI
_NUMBERED = re.compile(r"(?:.*[^-0-9]-?)?([0-9]{1,9})", re.DOTALL)

MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label of topologies by programs that do not export what a kubelet lists, such as Koordinator."""

_OF_NO_PLUGIN = "koordinator.sh/"
"""The beginning of names in topologies that no known device plugin serves."""

FINGERPRINT_ANNOTATION = f"{GROUP}/fingerprint"
"""Where exporters wrote a fingerprint before there were attributes."""

_POLICY, _SCOPE, _MAX_ZONES = "topologyManagerPolicy", "topologyManagerScope", "topologyManagerMaxNUMANodes"
_FINGERPRINT, _METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
_READ = frozenset({_POLICY, _SCOPE, _MAX_ZONES})
_ABSENT, _CONTRADICTED = Part(None), Part("two values")
_NUMA = "Node"
ATTRIBUTES = "attributes"
_INNER, _OUTER = ("resources", "costs"), (ATTRIBUTES, "topologyPolicies")

AMOUNTS = ("capacity", "allocatable", "available")
WITHOUT_PODS = ("capacity", "allocatable", "allocatable")
"""The fields of a node without allocations, where the free amounts are the allocatable ones."""

# The deprecated field, read as scheduler-plugins does (pkg/noderesourcetopology/nodeconfig): its first word
# counts, and an unknown word has no effect.
_DEPRECATED: Mapping[str, tuple[Policy, Scope]] = MappingProxyType(
    {
        "SingleNUMANodePodLevel": (Policy.SINGLE_NUMA_NODE, Scope.POD),
        "SingleNUMANodeContainerLevel": (Policy.SINGLE_NUMA_NODE, Scope.CONTAINER),
        "RestrictedPodLevel": (Policy.RESTRICTED, Scope.POD),
        "RestrictedContainerLevel": (Policy.RESTRICTED, Scope.CONTAINER),
        "BestEffortPodLevel": (Policy.BEST_EFFORT, Scope.POD),
        "BestEffortContainerLevel": (Policy.BEST_EFFORT, Scope.CONTAINER),
    }
)


@dataclass(frozen=True, slots=True)
class Topology:
    """One NodeResourceTopology, zones ascending by id; fields that are not set have the kubelet's defaults.

    `fingerprint` is that of the pods for which the free amounts account, None if none can be read. Of the
    `uncertain` resources an amount is `odd`, or no device plugin may serve them. Zones list them only if
    nothing but a free amount is odd: all that is allocatable then counts as free. `cpus` is what Koordinator
    annotates of the CPU manager.
    """

    name: str
    zones: tuple[Zone, ...]
    policy: Policy = Policy.NONE
    scope: Scope = Scope.CONTAINER
    max_zones: int = DEFAULT_MAX_ZONES
    fingerprint: Fingerprint | None = None
    uncertain: frozenset[str] = frozenset()
    odd: tuple[Mistake, ...] = ()
    cpus: CpuFacts = NO_FACTS


@dataclass(slots=True)
class _Odd:
    """What costs no more than amounts or the fingerprint; of `listed` resources more than the free ones."""

    mistakes: list[Mistake] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)


def topology(raw: Mapping[str, object]) -> Topology:
    """Return the zones and the policy of a node; raise `BadTopology` with every mistake.

    Mistakes that are `odd` alone are not raised, unless no zone is left. A zone's free amount never exceeds
    its allocatable one, whatever was published. If a limit is exceeded, that is the only mistake.
    """
    part = Part(raw)
    measure(part)
    part.raise_mistakes(BadTopology)
    version = part["apiVersion"].required_text()
    if version and version not in {f"{GROUP}/{known}" for known in VERSIONS}:
        part["apiVersion"].wrong(
            f"{named(version)} is not a supported version: expected one of {', '.join(VERSIONS)} of {GROUP}"
        )
    read = described(part, intern(part["metadata"]["name"].required_text()), AMOUNTS)
    if part.mistakes or not read.zones or len(read.odd) > MOST_MISTAKES:
        raise BadTopology([*part.mistakes, *read.odd])
    return read


def described(part: Part, name: str, amounts: Sequence[str]) -> Topology:
    """Return the topology of the node with this name, from an object that has been measured.

    `amounts` are the fields with the capacity, the allocatable and the free amount of a resource. Mistakes
    other than `odd` ones are left in the part.
    """
    odd = _Odd()
    metadata, attribute = part["metadata"], _attributes(part)
    # Exporters of what a kubelet lists (RTE, NFD, the agent) write its policy as an attribute, and no label.
    labelled = inner(metadata.value, "labels", MANAGED_BY) is not None
    of_machine = labelled and attribute(_POLICY).value is None
    zones = _zones(part, amounts, odd, doubtful="" if of_machine else _OF_NO_PLUGIN)
    facts = NO_FACTS
    if of_machine:
        facts, zones = _of_machine(zones, metadata, odd)
    words = [entry.text() for entry in part["topologyPolicies"].elements()]
    policy, scope = _DEPRECATED.get(words[0] if words else "", (Policy.NONE, Scope.CONTAINER))
    value, method = attribute(_FINGERPRINT).value, attribute(_METHOD).value
    annotated = inner(metadata.value, "annotations", FINGERPRINT_ANNOTATION)
    fingerprint = fingerprints.parse(annotated if value is None else value, method)
    if fingerprint is None and value is not None:
        # It cannot be compared, and the zones are still known.
        shown = " by method ".join(named(each) for each in (value, method) if each is not None)
        form = (
            f"{fingerprints.PREFIX} and 16 hexadecimal digits, by method {' or '.join(fingerprints.Method)}"
        )
        message = f"{shown} is not a known fingerprint of pods: expected {form}"
        odd.mistakes.append(Mistake(ATTRIBUTES, message))
    return Topology(
        name,
        zones,
        policy=attribute(_POLICY).one_of(Policy) or policy,
        scope=attribute(_SCOPE).one_of(Scope) or scope,
        max_zones=attribute(_MAX_ZONES).integer(least=2) or DEFAULT_MAX_ZONES,
        fingerprint=fingerprint,
        uncertain=frozenset(odd.listed | odd.free),
        odd=tuple(odd.mistakes),
        cpus=facts,
    )


def measure(part: Part) -> None:
    """Note the lists that are too long, without reading them."""
    zones = part["zones"]
    listed = [zone for zone in inner_list(zones.value) if isinstance(zone, dict)]
    numa = sum(1 for zone in listed if zone.get("type") == _NUMA)
    measured = (
        (zones, "zones", len(inner_list(zones.value)), MOST_ENTRIES),
        (zones, f"zones of type {_NUMA}", numa, MOST_ZONES),
        *((zones, key, sum(len(inner_list(zone, key)) for zone in listed), MOST_ENTRIES) for key in _INNER),
        *((part[key], "entries", len(inner_list(part[key].value)), MOST_ATTRIBUTES) for key in _OUTER),
    )
    for place, what, count, most in measured:
        if count > most:
            place.wrong(f"{count} {what} are more than the {most} that are allowed")
            return


def _attributes(part: Part) -> Callable[[str], Part]:
    """Return a lookup of attributes by name; one with two different values counts as contradicted."""
    values: dict[str, Part] = {}
    for entry in part[ATTRIBUTES].objects():
        name, value = entry["name"].required_text(), entry["value"].required()
        first = values.setdefault(name, value)
        if first.value == value.value:
            continue
        if name in _READ:
            value.wrong(f"{named(value.value)} contradicts {first.where}: {named(first.value)}")
        values[name] = first if name in _READ else _CONTRADICTED
    return lambda name: values.get(name, _ABSENT)


def _zones(topology_part: Part, amounts: Sequence[str], odd: _Odd, *, doubtful: str) -> tuple[Zone, ...]:
    """Return every NUMA zone, ascending by id; no device plugin may serve devices with `doubtful` names."""
    listed = topology_part["zones"].required()
    parts = [part for part in listed.objects() if part["type"].required_text() == _NUMA]
    if not parts and not topology_part.mistakes:
        listed.wrong(f"contains no zone of type {_NUMA}")
    numbered = [*zip(parts, _numbers(parts, odd), strict=True)]
    ids = {part["name"].text(): number for part, number in numbered if number is not None}
    zones = []
    for part, number in numbered:
        columns = _plain_columns(part["resources"].value, amounts)
        columns = columns or _columns_by_entry(part["resources"], amounts, odd)
        capacity, allocatable, available = (shared(Resources(column)) for column in columns)
        costs = _costs(part["costs"], ids)
        if number is None:
            odd.listed.update(capacity)
        else:
            name = intern(part["name"].text())
            zones.append(shared(Zone(number, name, capacity, allocatable, available, costs)))
    # An assumed machine of these amounts has an object for each of its CPUs.
    counts = [zone.capacity.get(CPU, 0) for zone in zones]
    if max(counts, default=0) <= _MOST_MILLIS < sum(counts):
        shown = resources.render(CPU, sum(counts))
        listed.wrong(f"have {shown} CPUs in total, and Linux supports {MOST_CPUS}")
    listed_names = {name for zone in zones for name in zone.capacity}
    odd.listed |= {name for name in listed_names if kind(name) is Kind.DEVICE and name.startswith(doubtful)}
    return tuple(sorted(_without_odd(zones, odd), key=lambda zone: zone.id))


def _of_machine(zones: Sequence[Zone], metadata: Part, odd: _Odd) -> tuple[CpuFacts, tuple[Zone, ...]]:
    """Return the zones of a program that lists the machine, whatever the kubelet's managers allocate.

    Whether there is a memory manager is unknown, and so is which zones have the reserved CPUs: none counts as
    reserved, and all of an unknown CPU manager is uncertain.
    """
    annotations = inner(metadata.value, "annotations")
    cpus = sum(zone.capacity.get(CPU, 0) for zone in zones) // MILLI
    facts = cpu_facts(annotations, cpus) if isinstance(annotations, dict) else NO_FACTS
    odd.listed |= {name for zone in zones for name in zone.capacity if kind(name) is Kind.MEMORY}
    (odd.free if facts.manager else odd.listed).add(CPU)
    whole = []
    for zone in _without_odd(zones, odd):
        allocatable = Resources({name: zone.capacity[name] for name in zone.allocatable})
        whole.append(replace(zone, allocatable=allocatable, free=allocatable))
    return facts, tuple(whole)


def _numbers(parts: Sequence[Part], odd: _Odd) -> list[ZoneId | None]:
    """Return the number of each zone; None if it has none of its own."""
    places: dict[ZoneId, Part] = {}
    numbers = list[ZoneId | None]()
    for part in parts:
        place = part["name"].noting(odd.mistakes)
        name = place.required_text()
        match = _NUMBERED.fullmatch(name) if len(name) <= LONGEST_NAME else None
        if len(name) > LONGEST_NAME:
            place.wrong(f"{named(name)} is too long: at most {LONGEST_NAME} characters are allowed")
        elif name and not match:
            place.wrong(f"{named(name)} does not end in the number of a zone, such as node-0")
        elif match and int(match[1]) > LARGEST_ZONE:
            place.wrong(f"{named(name)} has a number above {LARGEST_ZONE}, the highest NUMA node ID of Linux")
        number = ZoneId(int(match[1])) if match and place.value else None
        if number is not None and places.setdefault(number, place) is not place:
            place.wrong(f"{named(place.value)} has the same number as {places[number].where}: {number}")
            number = None
        numbers.append(number)
    return numbers


def _without_odd(zones: Sequence[Zone], odd: _Odd) -> Sequence[Zone]:
    """Return the zones without resources of which an amount is odd, in any zone; and without all memory."""
    if not odd.listed:
        return zones
    # The memory manager allocates memory and hugepages together.
    if any(kind(name) is Kind.MEMORY for name in odd.listed):
        odd.listed |= {name for zone in zones for name in zone.capacity if kind(name) is Kind.MEMORY}
    kept = []
    for zone in zones:
        capacity, allocatable, free = (
            shared(Resources({name: amount for name, amount in bag.items() if name not in odd.listed}))
            for bag in (zone.capacity, zone.allocatable, zone.free)
        )
        kept.append(replace(zone, capacity=capacity, allocatable=allocatable, free=free))
    return kept


_PlainColumns = tuple[dict[str, int], dict[str, int], dict[str, int]]


def _plain_columns(listed: object, amounts: Sequence[str]) -> _PlainColumns | None:
    """Return the columns of a list whose amounts are all texts; None if anything is wrong with it."""
    columns: _PlainColumns = {}, {}, {}
    capacities, allocatables, availables = columns
    for entry in _entries(listed, "name", *amounts) or ():
        if {*map(type, entry)} != {str} or not 0 < len(entry[0]) <= LONGEST_RESOURCE:
            return None
        name = intern(entry[0])
        try:
            capacity, allocatable, available = [amount_of(name, text) for text in entry[1:]]
        except BadQuantity:
            return None
        if name in capacities or allocatable > capacity or (name == CPU and capacity > _MOST_MILLIS):
            return None
        capacities[name], allocatables[name] = capacity, allocatable
        availables[name] = min(available, allocatable)
    # An empty list, or one without objects, need not be fast.
    return columns if capacities else None


def _entries(listed: object, *keys: str) -> list[tuple[Any, ...]] | None:
    """Return these members of all objects in a list; None if any is missing or it is no such list."""
    if not isinstance(listed, list):
        return None
    try:
        return [*map(itemgetter(*keys), listed)]
    except (KeyError, TypeError):
        return None


def _columns_by_entry(listed: Part, amounts: Sequence[str], odd: _Odd) -> _PlainColumns:
    """Return the columns, with a mistake for everything that is wrong; zero where nothing can be read."""
    columns: _PlainColumns = {}, {}, {}
    capacities, allocatables, availables = columns
    places: dict[str, Part] = {}
    for entry in listed.objects():
        name = intern(entry["name"].required_text())
        noting = entry.noting(odd.mistakes)
        if name and places.setdefault(name, entry) is not entry:
            noting.wrong(f"{named(name)} is listed twice: see {places[name].where}")
            odd.listed.add(name)
            continue
        by_field = {key: noting[key].required().amount(name) for key in dict.fromkeys(amounts)}
        capacity, allocatable, available = (by_field[key] for key in amounts)
        # Whatever can be compared is checked.
        before = len(noting.mistakes)
        if name == CPU and capacity is not None and capacity > _MOST_MILLIS:
            most = resources.render(name, capacity)
            noting["capacity"].wrong(f"{most} CPUs are more than the {MOST_CPUS} that Linux supports")
        if capacity is not None and allocatable is not None and allocatable > capacity:
            shown = [resources.render(name, amount) for amount in (allocatable, capacity)]
            noting["allocatable"].wrong(f"{shown[0]} is more than the capacity of {shown[1]}")
        if capacity is None or allocatable is None or len(noting.mistakes) > before:
            odd.listed.add(name)
            capacity = allocatable = available = 0
        elif available is None:
            odd.free.add(name)
            available = allocatable
        capacities[name], allocatables[name] = capacity, allocatable
        availables[name] = min(available, allocatable)
    return columns


def _costs(listed: Part, ids: Mapping[str, ZoneId]) -> ZoneCosts:
    """Return the distances to existing zones; others do not belong to this node."""
    entries = tuple(_entries(listed.value, "name", "value") or ())
    # Equal values may differ in type: True equals 1, but is not a distance.
    plain = {(type(name), type(value)) for name, value in entries} == {(str, int)}
    costs = _plain_costs(entries, tuple(ids.items())) if plain else None
    if costs is not None:
        return costs
    read = []
    places: dict[str, Part] = {}
    for entry in listed.objects():
        name, cost = entry["name"].required_text(), entry["value"].required().integer()
        if name and places.setdefault(name, entry) is not entry:
            entry.wrong(f"{named(name)} is listed twice: see {places[name].where}")
        elif name in ids and cost is not None:
            read.append((ids[name], cost))
    return shared(tuple(sorted(read)))


@lru_cache(maxsize=4096)
def _plain_costs(
    entries: tuple[tuple[str, int], ...], ids: tuple[tuple[str, ZoneId], ...]
) -> ZoneCosts | None:
    """Return the distances in a list of texts and numbers to these zones; None if anything is wrong."""
    distances, zones = dict(entries), dict(ids)
    if len(distances) < len(entries) or "" in distances or min(distances.values()) < 0:
        return None
    return tuple(sorted((zones[name], cost) for name, cost in entries if name in zones))
