"""
What is written on a pod about the zones it holds.

The annotation is the only memory of a placement that outlives every process: a scorer that starts rebuilds
its ledger from it, and other programs write and read it too. So what is written is the same for the same
placement, letter by letter, and what is read is believed as a whole or not at all: half a record would give
away what the other half holds.

    numalign.io/placement            [{"zones": ["node-0"], "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]
    kai.scheduler/numa-placement-... [{"zone": "node-0", "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]

The second shape is that of KAI-Scheduler (github.com/kai-scheduler/KAI-Scheduler, in its plugin numa), which
knows single zones only and has no record of a pod that holds nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import orjson

from numalign.kube.decode import placements
from numalign.kube.decode.parts import Part, inner, named
from numalign.ledger.model import PlacementRecord, Source
from numalign.model import intent
from numalign.model.errors import BadInput, Mistake
from numalign.model.node import Node
from numalign.model.placement import Held, Placement, ZoneSet
from numalign.model.resources import Resources

KAI_OBSERVED = "kai.scheduler/numa-placement-observed"
KAI_PREDICTED = "kai.scheduler/numa-placement-predicted"

LONGEST = 2**18
"""Bytes; the API server stores no more of all annotations of an object together."""

MOST_AMOUNTS = 4096
"""In all entries of a record together, as in a pod."""

MOST_ENTRIES = 256
"""In one record; sixteen zones and a few blocks of memory across them make a few dozen."""


class BadRecord(BadInput):
    """Raised when a text is no record of a placement."""


def write(kept: Mapping[ZoneSet, Resources], node: Node) -> str:
    """The record of what a pod keeps on a node: the same text for the same placement, whatever its order."""
    return orjson.dumps(placements.render(node, Placement(kept=kept))).decode()


def read(text: str) -> Held:
    """What a record says, the names of each set of zones in order; raises `BadRecord` with every mistake."""
    if len(text) > LONGEST:
        raise BadRecord([Mistake("", f"has {len(text)} characters: a record has at most {LONGEST}")])
    try:
        written = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRecord([Mistake("", f"is not JSON: {error}")]) from error
    record = Part(written)
    held = _held(record.required())
    record.raise_mistakes(BadRecord)
    return held


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """The record of a pod, if it has one, and what is wrong with those that were passed over for it."""

    record: PlacementRecord | None = None
    mistakes: tuple[Mistake, ...] = ()


NOTHING = DecodedRecord()


def record_of(annotations: Mapping[str, object]) -> DecodedRecord:
    """What a pod's annotations say it holds.

    What was observed counts before what was recorded at bind, and that before what somebody predicted; a
    record that cannot be read is passed over and told of.
    """
    mistakes: list[Mistake] = []
    for key, source in SOURCES.items():
        if key not in annotations:
            continue
        try:
            held = _record(key, annotations[key])
        except BadRecord as error:
            where = f"metadata.annotations[{key}]"
            mistakes += (replace(mistake, where=f"{where}{mistake.where}") for mistake in error.mistakes)
        else:
            return DecodedRecord(PlacementRecord(held, source), tuple(mistakes))
    return DecodedRecord(None, tuple(mistakes)) if mistakes else NOTHING


def _record(key: str, text: object) -> Held:
    """What an annotation says; KAI writes none where it knows nothing, and reads an empty list as wrong."""
    if not isinstance(text, str):
        raise BadRecord([Mistake("", f"must be a text, not {named(text)}")])
    held = read(text)
    if not held and key in {KAI_OBSERVED, KAI_PREDICTED}:
        raise BadRecord([Mistake("", "is empty, which says nothing")])
    return held


SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        intent.PLACEMENT_OBSERVED: Source.OBSERVED,
        KAI_OBSERVED: Source.OBSERVED,
        intent.PLACEMENT: Source.RECORDED,
        KAI_PREDICTED: Source.PREDICTED,
    }
)
"""The annotations that hold a record, the most trustworthy first."""

KEYS = frozenset(SOURCES)


def _held(record: Part) -> Held:
    if isinstance(record.value, list) and len(record.value) > MOST_ENTRIES:
        record.wrong(f"has {len(record.value)} entries: at most {MOST_ENTRIES} are read")
    if (amounts := _amounts(record.value)) > MOST_AMOUNTS:
        record.wrong(f"has {amounts} amounts: at most {MOST_AMOUNTS} are read")
    held: dict[tuple[str, ...], Resources] = {}
    places: dict[tuple[str, ...], Part] = {}
    for entry in record.objects():
        zones = _zones(entry)
        held[zones] = entry["amount"].required().amounts()
        # Without zones it may be one whose zones cannot be read.
        named_zones = zones or entry["zones"].value == []
        if named_zones and places.setdefault(zones, entry) is not entry:
            names = ", ".join(map(named, zones)) or "no zone"
            entry.wrong(f"{names} stands here twice: see {places[zones].where}")
    return held


def _amounts(entries: object) -> int:
    """How many amounts all entries have together, whatever they say."""
    lists = (inner(entry, "amount") for entry in (entries if isinstance(entries, list) else ()))
    return sum(len(amounts) for amounts in lists if isinstance(amounts, dict))


def _zones(entry: Part) -> tuple[str, ...]:
    """The names of an entry's zones, in order; none for devices of which nobody knows where they sit."""
    one, several = entry["zone"], entry["zones"]
    if one.value is not None and several.value is not None:
        one.wrong("stands beside zones: keep one of them")
    names = [*_names(several)] if one.value is None else [one.required_text()]
    return tuple(sorted(names))


def _names(listed: Part) -> Iterator[str]:
    names = set[str]()
    for part in listed.required().elements():
        name = part.required_text()
        if name in names:
            part.wrong(f"{named(name)} is named twice")
        names.add(name)
        yield name
