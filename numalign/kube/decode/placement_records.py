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

from collections.abc import Mapping
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


class BadRecord(BadInput):
    """Raised when a text is no record of a placement."""


def write(kept: Mapping[ZoneSet, Resources], node: Node) -> str:
    """The record of what a pod keeps on a node: the same text for the same placement, whatever its order."""
    return orjson.dumps(placements.render(node, Placement(kept=kept))).decode()


def read(text: str) -> Held:
    """What a record says, the names of each set of zones in order; raises `BadRecord` with every mistake."""
    if len(text) > LONGEST:
        raise BadRecord([Mistake("", f"has {len(text)} characters: at most {LONGEST} are allowed")])
    try:
        written = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRecord([Mistake("", f"is not JSON: {error}")]) from error
    record = Part(written)
    held = placements.held(record.required())
    record.raise_mistakes(BadRecord)
    return held


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """The record of a pod, if it has one, and what is wrong with those that were passed over for it."""

    record: PlacementRecord | None = None
    mistakes: tuple[Mistake, ...] = ()


NOTHING = DecodedRecord()


def record_of(annotations: Mapping[str, object]) -> DecodedRecord:
    """Return what a pod's annotations say it holds.

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
        raise BadRecord([Mistake("", f"must be a string, not {named(text)}")])
    held = read(text)
    if not held and key in {KAI_OBSERVED, KAI_PREDICTED}:
        raise BadRecord([Mistake("", "is empty")])
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
