"""The recorded placement of a pod, compared with what its kubelet gave it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

from numalign.model.quantity import millis, units

Raw = dict[str, Any]
Amounts = dict[tuple[str, ...], dict[str, int]]
"""By zones, in order: CPUs in thousandths, everything else in units."""

PLACEMENT = "numalign.io/placement"


class Agreement(StrEnum):
    """How a record compares with a kubelet; none is needed if a pod holds nothing of any zone."""

    NEEDLESS = "needless"
    SAME = "same"
    DIFFERENT = "different"
    UNRECORDED = "unrecorded"


def agreement(pod: Raw, held: Mapping[tuple[int, ...], Mapping[str, int]]) -> Agreement:
    """Compare the record of a pod with what it holds."""
    written = record(pod)
    given = {
        tuple(sorted(f"node-{zone}" for zone in zones)): dict(amounts)
        for zones, amounts in held.items()
        if amounts
    }
    if written is None:
        return Agreement.UNRECORDED if given else Agreement.NEEDLESS
    return Agreement.SAME if recorded(written) == given else Agreement.DIFFERENT


def record(pod: Raw) -> str | None:
    """Return the recorded placement of a pod; None if there is none."""
    found: str | None = pod["metadata"].get("annotations", {}).get(PLACEMENT)
    return found


def recorded(text: str) -> Amounts:
    """Parse a record; the amounts of parts for the same zones are added up."""
    found: Amounts = {}
    for part in orjson.loads(text):
        amounts = found.setdefault(tuple(sorted(part["zones"])), {})
        for name, amount in part["amount"].items():
            read = millis(amount) if name == "cpu" else units(amount)
            amounts[name] = amounts.get(name, 0) + read
    return found


def spread(held: Mapping[tuple[int, ...], Mapping[str, int]]) -> int:
    """Return from how many zones a pod got what it holds."""
    return len({zone for zones, amounts in held.items() if amounts for zone in zones})
