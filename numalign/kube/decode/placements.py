"""
The annotations on a pod with the zones it holds.

The annotation is the only record of a placement that outlives every process: a starting scorer rebuilds its
ledger from it, and people and other programs write and read it too. So it names zones as the node's topology
does and amounts as Kubernetes does, the text is always the same for the same placement, and a record is
trusted as a whole or not at all: half a record would release what the other half holds.

    numalign.io/placement            [{"zones": ["node-0"], "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]
    kai.scheduler/numa-placement-... [{"zone": "node-0", "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]

    kai.scheduler/numa-memory-groups-... [{"memoryNodes": ["node-0", "node-1"], "amount": {"memory": "8Gi"}}]

The last two are those of KAI-Scheduler (github.com/kai-scheduler/KAI-Scheduler, in its plugin numa). Its
placement names only single zones, and it has none of a pod that holds nothing. The memory groups beside it
(docs/developer/designs/numa-topology/memory-manager-groups.md) are all that the memory manager gave the pod,
on single zones too, so they replace the memory of the placement. The text `null` means that they are unknown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode.parts import Part, inner, inner_list, named
from numalign.ledger.model import PlacementRecord, Source
from numalign.model import intent
from numalign.model.errors import BadInput, Mistake
from numalign.model.node import Node
from numalign.model.placement import Held, Placement, ZoneSet
from numalign.model.resources import EMPTY, Kind, Resources, kind
from numalign.model.resources import render as quantity
from numalign.runtime.nesting import why_not_json

KAI_OBSERVED = "kai.scheduler/numa-placement-observed"
KAI_PREDICTED = "kai.scheduler/numa-placement-predicted"
_UNKNOWN = "null"

_GROUPS: Mapping[str, str] = MappingProxyType(
    {
        KAI_OBSERVED: "kai.scheduler/numa-memory-groups-observed",
        KAI_PREDICTED: "kai.scheduler/numa-memory-groups-predicted",
    }
)
"""The annotations with memory groups, by that of the placement."""

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        intent.PLACEMENT_OBSERVED: Source.OBSERVED,
        KAI_OBSERVED: Source.OBSERVED,
        intent.PLACEMENT: Source.RECORDED,
        KAI_PREDICTED: Source.PREDICTED,
    }
)
"""The annotations that hold a record, the most trustworthy first."""

KEYS = frozenset({*SOURCES, *_GROUPS.values()})

LONGEST = 2**18
"""The limit of bytes; the API server stores no more of all annotations of an object together."""

MOST_AMOUNTS = 4096
"""The limit in all entries of a record together, as in a pod."""

MOST_ENTRIES = 256
"""The limit in one record; sixteen zones and a few blocks of memory across them make a few dozen."""


class BadRecord(BadInput):
    """Raised when a text is not a valid record of a placement."""


def render(node: Node, placement: Placement) -> list[dict[str, Any]]:
    """Return what the pod keeps, one entry for each set of zones with resources."""
    names = {zone.id: zone.name for zone in node.zones}
    return [
        _entry([names[zone] for zone in zones], amounts) for zones, amounts in sorted(placement.kept.items())
    ]


def render_held(held: Held) -> list[dict[str, Any]]:
    """Return what a pod holds, one entry for each set of zones, in the order of their names."""
    return [_entry([*zones], held[zones]) for zones in sorted(held)]


def _entry(zones: list[str], amounts: Resources) -> dict[str, Any]:
    return {"zones": zones, "amount": {name: quantity(name, amount) for name, amount in amounts.items()}}


def write(kept: Mapping[ZoneSet, Resources], node: Node) -> str:
    """Return the record of what a pod keeps on a node: the same text for the same placement."""
    return orjson.dumps(render(node, Placement(kept=kept))).decode()


def read(text: str, *, several: str = "zones") -> Held:
    """Return what a record says, by the zones in the field `several`; raise `BadRecord` of every mistake."""
    if len(text) > LONGEST:
        raise BadRecord([Mistake("", f"has {len(text)} characters: at most {LONGEST} are allowed")])
    try:
        written = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRecord([Mistake("", why_not_json(text, error))]) from error
    record = Part(written)
    content = held(record.required(), several=several)
    record.raise_mistakes(BadRecord)
    return content


def held(record: Part, *, several: str = "zones") -> Held:
    """Return what a record says, by the zones in the field `several`; mistakes are left in the part."""
    if isinstance(record.value, list) and len(record.value) > MOST_ENTRIES:
        record.wrong(f"has {len(record.value)} entries: at most {MOST_ENTRIES} are allowed")
    bags = [inner(entry, "amount") for entry in inner_list(record.value)]
    if (amounts := sum(len(bag) for bag in bags if isinstance(bag, dict))) > MOST_AMOUNTS:
        record.wrong(f"has {amounts} quantities: at most {MOST_AMOUNTS} are allowed")
    read: dict[tuple[str, ...], Resources] = {}
    places: dict[tuple[str, ...], Part] = {}
    for entry in record.objects():
        zones = _zones(entry, several)
        read[zones] = entry["amount"].required().amounts()
        # An entry without zones may be one whose zones cannot be read.
        named_zones = zones or entry[several].value == []
        if named_zones and places.setdefault(zones, entry) is not entry:
            names = ", ".join(map(named, zones)) or "no zone"
            entry.wrong(f"{names} is listed twice: see {places[zones].where}")
    return read


def _zones(entry: Part, field: str) -> tuple[str, ...]:
    """Return the names of an entry's zones, in order; none for devices without a known zone."""
    one, several = entry["zone"], entry[field]
    if one.value is not None and several.value is not None:
        one.wrong(f"cannot be combined with {field}: remove one of them")
    if one.value is not None:
        return (one.required_text(),)
    names = Counter[str]()
    for part in several.required().elements():
        name = part.required_text()
        if name in names:
            part.wrong(f"{named(name)} is listed twice")
        names[name] += 1
    return tuple(sorted(names.elements()))


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """The record of a pod, if it has one, and the mistakes in those that were skipped."""

    record: PlacementRecord | None = None
    mistakes: tuple[Mistake, ...] = ()


NOTHING = DecodedRecord()


def record_of(annotations: Mapping[str, object]) -> DecodedRecord:
    """Return the record in a pod's annotations.

    Observed records take precedence over those recorded at binding, and these over predicted ones; an
    unreadable record is skipped and reported.
    """
    mistakes: list[Mistake] = []
    for key, source in SOURCES.items():
        record = _record(annotations, key, "zones", mistakes) if key in annotations else None
        if record is None:
            continue
        groups, group_key = None, _GROUPS.get(key, "")
        if annotations.get(group_key, _UNKNOWN) != _UNKNOWN:
            groups = _record(annotations, group_key, "memoryNodes", mistakes)
        return DecodedRecord(PlacementRecord(_with_groups(record, groups), source), tuple(mistakes))
    return DecodedRecord(None, tuple(mistakes)) if mistakes else NOTHING


def _record(
    annotations: Mapping[str, object], key: str, several: str, mistakes: list[Mistake]
) -> Held | None:
    """Return the record in an annotation; None if it cannot be read, with its mistakes noted."""
    text = annotations[key]
    wrong: Sequence[Mistake]
    if not isinstance(text, str):
        wrong = [Mistake("", f"must be a string, not {named(text)}")]
    else:
        try:
            record = read(text, several=several)
        except BadRecord as error:
            wrong = error.mistakes
        else:
            # KAI never writes an empty placement.
            if record or key not in {KAI_OBSERVED, KAI_PREDICTED}:
                return record
            wrong = [Mistake("", "is empty")]
    where = f"metadata.annotations[{key}]"
    mistakes += (replace(mistake, where=f"{where}{mistake.where}") for mistake in wrong)
    return None


def _with_groups(record: Held, groups: Held | None) -> Held:
    """Return what a pod holds, its memory by these groups; as it is, if they are unknown."""
    if groups is None:
        return record
    merged = {
        zones: Resources({name: amount for name, amount in bag.items() if kind(name) is not Kind.MEMORY})
        for zones, bag in record.items()
    }
    for zones, bag in groups.items():
        memory = {name: amount for name, amount in bag.items() if kind(name) is Kind.MEMORY}
        merged[zones] = merged.get(zones, EMPTY).plus(memory)
    return merged
