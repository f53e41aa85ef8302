"""
The annotations on a pod with the zones it holds.

The annotation is the only record of a placement that outlives every process: a starting scorer rebuilds its
ledger from it, and other programs write and read it too. So the text is always the same for the same
placement, and a record is trusted as a whole or not at all: half a record would release what the other half
holds.

    numalign.io/placement            [{"zones": ["node-0"], "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]
    kai.scheduler/numa-placement-... [{"zone": "node-0", "amount": {"cpu": "8", "nvidia.com/gpu": "1"}}]

    kai.scheduler/numa-memory-groups-... [{"memoryNodes": ["node-0", "node-1"], "amount": {"memory": "8Gi"}}]

The last two are those of KAI-Scheduler (github.com/kai-scheduler/KAI-Scheduler, in its plugin numa). Its
placement names only single zones, and it has none of a pod that holds nothing. The memory groups beside it
(docs/developer/designs/numa-topology/memory-manager-groups.md) are all that the memory manager gave the pod,
on single zones too, so they replace the memory of the placement. The text `null` means that they are unknown.
"""

from collections.abc import Mapping, Sequence
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
from numalign.model.resources import EMPTY, Kind, Resources, kind
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

LONGEST = 2**18
"""The limit of bytes; the API server stores no more of all annotations of an object together."""


class BadRecord(BadInput):
    """Raised when a text is not a valid record of a placement."""


def write(kept: Mapping[ZoneSet, Resources], node: Node) -> str:
    """Return the record of what a pod keeps on a node: the same text for the same placement."""
    return orjson.dumps(placements.render(node, Placement(kept=kept))).decode()


def read(text: str, *, several: str = "zones") -> Held:
    """Return what a record says, by the zones in the field `several`; raise `BadRecord` of every mistake."""
    if len(text) > LONGEST:
        raise BadRecord([Mistake("", f"has {len(text)} characters: at most {LONGEST} are allowed")])
    try:
        written = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRecord([Mistake("", why_not_json(text, error))]) from error
    record = Part(written)
    held = placements.held(record.required(), several=several)
    record.raise_mistakes(BadRecord)
    return held


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
        held = _held(annotations, key, "zones", mistakes) if key in annotations else None
        if held is None:
            continue
        groups, group_key = None, _GROUPS.get(key, "")
        if annotations.get(group_key, _UNKNOWN) != _UNKNOWN:
            groups = _held(annotations, group_key, "memoryNodes", mistakes)
        return DecodedRecord(PlacementRecord(_with_groups(held, groups), source), tuple(mistakes))
    return DecodedRecord(None, tuple(mistakes)) if mistakes else NOTHING


def _held(annotations: Mapping[str, object], key: str, several: str, mistakes: list[Mistake]) -> Held | None:
    """Return the record in an annotation; None if it cannot be read, with its mistakes noted."""
    text = annotations[key]
    wrong: Sequence[Mistake]
    if not isinstance(text, str):
        wrong = [Mistake("", f"must be a string, not {named(text)}")]
    else:
        try:
            held = read(text, several=several)
        except BadRecord as error:
            wrong = error.mistakes
        else:
            # KAI never writes an empty placement.
            if held or key not in {KAI_OBSERVED, KAI_PREDICTED}:
                return held
            wrong = [Mistake("", "is empty")]
    where = f"metadata.annotations[{key}]"
    mistakes += (replace(mistake, where=f"{where}{mistake.where}") for mistake in wrong)
    return None


def _with_groups(held: Held, groups: Held | None) -> Held:
    """Return what a pod holds, its memory by these groups; as it is, if they are unknown."""
    if groups is None:
        return held
    merged = {
        zones: Resources({name: amount for name, amount in bag.items() if kind(name) is not Kind.MEMORY})
        for zones, bag in held.items()
    }
    for zones, bag in groups.items():
        memory = {name: amount for name, amount in bag.items() if kind(name) is Kind.MEMORY}
        merged[zones] = merged.get(zones, EMPTY).plus(memory)
    return merged


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
