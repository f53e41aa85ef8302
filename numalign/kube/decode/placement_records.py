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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import orjson

from numalign.kube.decode import placements
from numalign.kube.decode.parts import Part, named
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
    whole = Part(written)
    held = _held(whole.required())
    whole.raise_mistakes(BadRecord)
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
            held = _READERS.get(key, _ours)(annotations[key])
        except BadRecord as error:
            where = f"metadata.annotations[{key}]"
            mistakes += (replace(each, where=f"{where}{each.where}") for each in error.mistakes)
        else:
            return DecodedRecord(PlacementRecord(held, source), tuple(mistakes))
    return DecodedRecord(None, tuple(mistakes)) if mistakes else NOTHING


def _ours(text: object) -> Held:
    if not isinstance(text, str):
        raise BadRecord([Mistake("", f"must be a text, not {named(text)}")])
    return read(text)


def _theirs(text: object) -> Held:
    """KAI writes nothing where it knows nothing, and reads an empty list as a mistake."""
    held = _ours(text)
    if not held:
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

_READERS: Mapping[str, Callable[[object], Held]] = MappingProxyType(
    {KAI_OBSERVED: _theirs, KAI_PREDICTED: _theirs}
)


def _held(whole: Part) -> Held:
    if isinstance(whole.value, list) and len(whole.value) > MOST_ENTRIES:
        whole.wrong(f"has {len(whole.value)} entries: at most {MOST_ENTRIES} are read")
    if (amounts := _amounts(whole.value)) > MOST_AMOUNTS:
        whole.wrong(f"has {amounts} amounts: at most {MOST_AMOUNTS} are read")
    held: dict[tuple[str, ...], Resources] = {}
    places: dict[tuple[str, ...], Part] = {}
    for entry in whole.objects():
        zones = _zones(entry)
        held[zones] = entry["amount"].required().amounts()
        # Without zones it may be one whose zones cannot be read.
        told = zones or entry["zones"].value == []
        if told and places.setdefault(zones, entry) is not entry:
            names = ", ".join(map(named, zones)) or "no zone"
            entry.wrong(f"{names} stands here twice: see {places[zones].where}")
    return held


def _amounts(entries: object) -> int:
    """How many amounts all entries have together, whatever they say."""
    found = (
        [each.get("amount") for each in entries if isinstance(each, dict)]
        if isinstance(entries, list)
        else []
    )
    return sum(len(bag) for bag in found if isinstance(bag, dict))


def _zones(entry: Part) -> tuple[str, ...]:
    """The names of an entry's zones, in order; none for devices of which nobody knows where they sit."""
    one, several = entry["zone"], entry["zones"]
    if one.value is not None and several.value is not None:
        one.wrong("stands beside zones: keep one of them")
    names = [*_names(several)] if one.value is None else [one.required_text()]
    return tuple(sorted(names))


def _names(listed: Part) -> Iterator[str]:
    seen = set[str]()
    for part in listed.required().elements():
        name = part.required_text()
        if name in seen:
            part.wrong(f"{named(name)} is named twice")
        seen.add(name)
        yield name
