"""
The reports of a node's agent, in annotations of the node's topology.

A topology has only amounts by zone. Which CPUs share a core, which of them are reserved, how the kubelet is
configured, and what each pod holds, is written beside it, in the same write:

    numalign.io/machine      {"version": 1,
                              "kubelet": {"version": "v1.34.4", "cpuManagerPolicy": "static", ...},
                              "machine": {"zones": [{"id": 0, "socket": 0, "cores": [[0, 8], [1, 9]], ...}],
                                          "devices": {"x/gpu": [{"zones": [0], "total": 4, "healthy": 3}]}}}
    numalign.io/placements   {"version": 1, "pods": {"<uid>": {"held": [...], "cpus": "2-3,9-10"}}}

The machine has the fields of a described one (`machines`), except that devices are counted by place; what a
pod holds is written as on a pod (`placements`). Both are read as a whole or not at all, because half of a
report means something else than the whole. A report of an unknown version is not read, because the same words
may mean something else there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode import kubelet_config, machines, placements
from numalign.kube.decode.kubelet_config import KubeletConfiguration
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory, known_zone
from numalign.kube.decode.nrt import MOST_ZONES
from numalign.kube.decode.parts import MOST_AMOUNTS, Part, amount_of, named
from numalign.model import quantity
from numalign.model.bitset import members
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import LONGEST_NAME, PREFIX
from numalign.model.machine import Core, CpuSet, DevicePlace, existing, read_list, render_list
from numalign.model.placement import Held
from numalign.model.resources import Resources, ZoneId
from numalign.runtime.nesting import why_not_json

MACHINE = f"{PREFIX}machine"
PLACEMENTS = f"{PREFIX}placements"
OBSERVED_AT = f"{PREFIX}observed-at"
"""When the agent last looked and wrote, RFC 3339 in UTC."""

LONGEST_MACHINE = 96 * 2**10
"""The limit of bytes; a machine of 4,096 cores in 64 zones has 90 KiB."""

LONGEST_PLACEMENTS = 128 * 2**10
"""The limit of bytes; the API server stores 256 KiB of all annotations of an object together."""

MOST_PLACES = 1024
"""The limit of sets of zones with devices, for all resources together."""

MOST_DEVICES = 10**6
"""The limit in one place; plugins that share a device list it some thousand times."""

_VERSION = 1
_PLACE_FIELDS = ("zones", "total", "healthy")
_POD_FIELDS = ("held", "cpus")
_PLAIN_POD, _PLAIN_ENTRY = frozenset(_POD_FIELDS), ("zones", "amount")


class BadReport(BadInput):
    """Raised when a text is not a valid report of a machine or of placements."""


@dataclass(frozen=True, slots=True)
class MachineReport:
    """The machine of a node, and the configuration of its kubelet of this version (`v1.34.4`)."""

    machine: DescribedMachine
    configuration: KubeletConfiguration
    version: str


@dataclass(frozen=True, slots=True)
class ObservedPlacement:
    """What a kubelet gave one pod: amounts by sets of zones, and CPU ids."""

    held: Held
    cpus: CpuSet


def read_machine(text: object, name: str) -> MachineReport:
    """Return the report on the machine of this node; raise `BadReport` with every mistake."""
    report = _report(text, LONGEST_MACHINE)
    kubelet, machine = report["kubelet"].required(), report["machine"].required()
    # What exceeds a limit is noted without reading it.
    zones, devices = machine["zones"], machine["devices"]
    if isinstance(zones.value, list) and len(zones.value) > MOST_ZONES:
        zones.wrong(f"has {len(zones.value)} entries: at most {MOST_ZONES} are allowed")
    listed = devices.value.values() if isinstance(devices.value, dict) else ()
    count = sum(len(places) for places in listed if isinstance(places, list))
    if count > MOST_PLACES:
        devices.wrong(f"has {count} places: at most {MOST_PLACES} are allowed")
    report.raise_mistakes(BadReport)
    read = MachineReport(
        machines.described(machine, _places),
        kubelet_config.configuration(kubelet, name),
        kubelet["version"].required_text(),
    )
    report.raise_mistakes(BadReport)
    return read


def read_placements(text: object) -> Mapping[str, ObservedPlacement]:
    """Return what each pod was given, by its uid; raise `BadReport` with every mistake."""
    report = _report(text, LONGEST_PLACEMENTS)
    pods = report["pods"].required()
    read = dict[str, ObservedPlacement]()
    for uid, pod in pods.members():
        if not Part(uid, uid, pods).uid():
            continue
        placement = _plain_placement(pod.value)
        if placement is None:
            pod.only(_POD_FIELDS)
            held = placements.held(pod["held"].required())
            placement = ObservedPlacement(held, pod["cpus"].cpu_list() or 0)
        read[uid] = placement
    report.raise_mistakes(BadReport)
    return MappingProxyType(read)


def write_machine(machine: DescribedMachine, kubelet: Mapping[str, object]) -> str:
    """Return the report of a machine and a kubelet of a `version`; raise `BadReport` if it cannot be read."""
    cores: dict[ZoneId, list[Core]] = defaultdict(list)
    for core in machine.cores:
        cores[core.zone].append(core)
    devices = {}
    for name, places in machine.devices:
        present = (place for place in places if place.total)
        devices[name] = [
            {"zones": place.zones, "total": place.total, "healthy": place.healthy} for place in present
        ]
    fields = {
        "zones": [_zone(bank, cores[bank.zone]) for bank in machine.banks],
        **({"reservedSystemCPUs": render_list(machine.reserved)} if machine.reserved else {}),
        **({} if machine.kept is None else {"reservedCPUs": machine.kept}),
        "devices": devices,
    }
    text = _written({"kubelet": kubelet, "machine": fields}, LONGEST_MACHINE)
    read_machine(text, "")
    return text


def write_placements(pods: Mapping[str, ObservedPlacement]) -> str:
    """Return the report of what pods were given, by their uids; raise `BadReport` if it is too long."""
    rendered = {}
    for uid, pod in pods.items():
        cpus = {"cpus": render_list(pod.cpus)} if pod.cpus else {}
        rendered[uid] = {"held": placements.render_held(pod.held), **cpus}
    return _written({"pods": rendered}, LONGEST_PLACEMENTS)


def _report(text: object, longest: int) -> Part:
    """Return a report of a known version, as a part without mistakes; raise `BadReport` for any other."""
    if not isinstance(text, str):
        raise BadReport([Mistake("", f"must be a string, not {named(text)}")])
    # Text that is not valid Unicode is not JSON, but still has a length.
    _check_length(len(text.encode(errors="surrogatepass")), longest)
    try:
        report = Part(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise BadReport([Mistake("", why_not_json(text, error))]) from error
    version = report["version"].required()
    number = version.integer()
    if number is not None and number != _VERSION:
        version.wrong(f"{number} is not a supported version: expected {_VERSION}")
    report.raise_mistakes(BadReport)
    return report


def _written(fields: Mapping[str, object], longest: int) -> str:
    written = orjson.dumps({"version": _VERSION, **fields}, option=orjson.OPT_SORT_KEYS)
    _check_length(len(written), longest)
    return written.decode()


def _check_length(length: int, longest: int) -> None:
    if length > longest:
        raise BadReport([Mistake("", f"has {length} bytes: at most {longest} are allowed")])


def _places(listed: Part, zones: Sequence[ZoneId]) -> Iterable[DevicePlace]:
    places: dict[tuple[ZoneId, ...], Part] = {}
    for part in listed.objects():
        part.only(_PLACE_FIELDS)
        entries = part["zones"].required().elements()
        at = tuple(sorted(existing(known_zone(entry, zones) for entry in entries)))
        total, healthy = (_count(part[key]) for key in ("total", "healthy"))
        if healthy > total:
            part.wrong(f"{healthy} healthy devices are more than the total of {total}")
        elif places.setdefault(at, part) is not part:
            part.wrong(f"these zones are also listed at {places[at].where}")
        yield DevicePlace(at, total, healthy)


def _count(part: Part) -> int:
    number = part.required().integer() or 0
    if number > MOST_DEVICES:
        part.wrong(f"{number} devices are more than the {MOST_DEVICES} that are allowed")
    return number


def _plain_placement(pod: Any) -> ObservedPlacement | None:  # noqa: ANN401  whatever JSON has
    """Return what a pod was given; None if anything is wrong. Thousands of nodes have a hundred pods each."""
    held: dict[tuple[str, ...], Resources] = {}
    try:
        if not pod.keys() <= _PLAIN_POD or len(pod["held"]) > placements.MOST_ENTRIES:
            return None
        for entry in pod["held"]:
            names, amount = entry["zones"], entry["amount"]
            if len(entry) != len(_PLAIN_ENTRY) or type(names) is not list or len(amount) > MOST_AMOUNTS:
                return None
            if "" in names or {*map(type, names), *map(type, amount.values())} - {str}:
                return None
            zones = tuple(sorted({*names}))
            if zones in held or len(zones) < len(names) or max(map(len, amount), default=0) > LONGEST_NAME:
                return None
            held[zones] = Resources({name: amount_of(name, text) for name, text in amount.items()})
        return ObservedPlacement(held, read_list(pod.get("cpus", "")))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _zone(bank: ZoneMemory, cores: Sequence[Core]) -> dict[str, Any]:
    pages = {name.removeprefix("hugepages-"): amount for name, amount in bank.huge.items()}
    fields: dict[str, Any] = {
        "cores": [[*members(core.threads)] for core in cores],
        "socket": _by_core([core.socket for core in cores]),
        "uncoreCacheIDs": _by_core([core.cache for core in cores]),
        "hugepages": {size: amount // quantity.units(size) for size, amount in pages.items()},
        "distances": [*bank.distances],
    }
    kept = {} if bank.reserved is None else {"reservedMemory": bank.reserved}
    present = {key: value for key, value in fields.items() if value != []}
    return {"id": bank.zone, "memory": bank.memory, **kept, **present}


def _by_core(numbers: list[int]) -> list[int] | int:
    """Return a number for each core, as `machines.described` takes them: one if all have the same."""
    return numbers[0] if len({*numbers}) == 1 else numbers
