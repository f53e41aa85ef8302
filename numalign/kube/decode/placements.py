"""
Placements in the form of `numalign.io/placement`.

The annotation outlives the process that wrote it and is read by people and other programs, so it names zones
as the node's topology does and amounts as Kubernetes does.
"""

from collections import Counter
from typing import Any

from numalign.kube.decode.parts import Part, inner, inner_list, named
from numalign.model.node import Node
from numalign.model.placement import Held, Placement
from numalign.model.resources import Resources
from numalign.model.resources import render as quantity

MOST_AMOUNTS = 4096
"""The limit in all entries of a record together, as in a pod."""

MOST_ENTRIES = 256
"""The limit in one record; sixteen zones and a few blocks of memory across them make a few dozen."""


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
