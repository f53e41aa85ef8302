"""
Amounts of resources, and which manager of the kubelet handles a name.

Amounts are integers in the unit that their name implies: cpu in millicores, memory and hugepages in bytes,
everything else in pieces. `Resources` are frozen and hashable, because demands and nodes are keys of caches.
"""

import re
from collections.abc import ItemsView, Iterator, KeysView, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NewType, TypeVar, overload

from numalign.model import quantity
from numalign.model.errors import BadQuantity, Mistake

T = TypeVar("T")

ZoneId = NewType("ZoneId", int)
"""The operating system's id of a NUMA node. Ids may have gaps, as in 0 and 3; never a list position."""

CPU = "cpu"
MEMORY = "memory"
MILLI = 1000
"""Millicores of one CPU."""

# No zone can hold these: the kubelet keeps them per node.
NODE_LEVEL = frozenset({"ephemeral-storage", "storage", "pods"})

_NATIVE_DOMAIN = "kubernetes.io/"

LONGEST_EXACT = 8
"""The limit of characters; a longer exact amount is shown in its largest unit, with one decimal."""

_UNITS = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Kind(StrEnum):
    """Which of the kubelet's managers allocates a resource."""

    CPU = "cpu"
    MEMORY = "memory"
    DEVICE = "device"
    NODE = "node"


class Resources(Mapping[str, int]):
    """Amounts by resource name; zero amounts are kept, because a zone may report that it has none."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        self._amounts = dict(sorted(amounts.items())) if amounts else {}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    # Mapping would build these from __getitem__, name by name.
    def items(self) -> ItemsView[str, int]:
        """Return pairs of name and amount, by name."""
        return self._amounts.items()

    def keys(self) -> KeysView[str]:
        """Return the names, in order."""
        return self._amounts.keys()

    @overload
    def get(self, name: str, /) -> int | None: ...
    @overload
    def get(self, name: str, default: "int | T", /) -> "int | T": ...
    def get(self, name: str, default: object = None, /) -> object:
        """Return the amount of a name, or the default if there is none."""
        return self._amounts.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __hash__(self) -> int:
        # Most instances are never a key.
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return NotImplemented

    def __repr__(self) -> str:
        return f"Resources({self._amounts})"

    def plus(self, other: Mapping[str, int]) -> "Resources":
        """Return the sum by name; a name that only one of them has keeps its amount."""
        return Resources({name: self.get(name, 0) + other.get(name, 0) for name in {*self, *other}})

    def most(self, other: Mapping[str, int]) -> "Resources":
        """Return the larger amount of each name that either of them has."""
        return Resources({name: max(self.get(name, 0), other.get(name, 0)) for name in {*self, *other}})

    def within(self, most: "Resources") -> bool:
        """Return whether no amount exceeds that of its name in the other; a missing name means zero."""
        return (
            self is most or self == most or all(amount <= most.get(name, 0) for name, amount in self.items())
        )

    def positive(self) -> "Resources":
        """Return only the names with amounts above zero."""
        return Resources({name: amount for name, amount in self.items() if amount > 0})


EMPTY = Resources()


@lru_cache(maxsize=4096)
def kind(name: str) -> Kind:
    """Return the manager that allocates a resource, by its name alone.

    No device plugin can register a name that contains `kubernetes.io/` (Register of
    pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, IsExtendedResourceName of pkg/apis/core/v1/helper).
    Koordinator writes such names into Nodes and topologies, as `kubernetes.io/batch-cpu`.
    """
    if name == CPU:
        return Kind.CPU
    if name == MEMORY or name.startswith("hugepages-"):
        return Kind.MEMORY
    return Kind.NODE if name in NODE_LEVEL or _NATIVE_DOMAIN in name else Kind.DEVICE


def parse(written: Mapping[str, object], *, where: str = "") -> Resources:
    """Read a Kubernetes resource list; raise `BadQuantity` with every invalid amount."""
    amounts: dict[str, int] = {}
    mistakes: list[Mistake] = []
    for name, text in written.items():
        try:
            amounts[name] = parse_amount(name, text)
        except BadQuantity as error:
            path = f"{where}.{name}" if where else name
            mistakes.extend(mistake.under(path) for mistake in error.mistakes)
    if mistakes:
        raise BadQuantity(mistakes)
    return Resources(amounts)


def parse_amount(name: str, text: object) -> int:
    """Read one amount in the unit of its name; raise `BadQuantity` if it is invalid."""
    read = quantity.millis if name == CPU else quantity.units
    return read(text)


def render(name: str, amount: int) -> str:
    """Return the quantity of an amount: `1500m` of cpu, `16Gi` of memory, a plain number of anything else."""
    show = {Kind.CPU: quantity.render_millis, Kind.MEMORY: quantity.render_units}
    return show.get(kind(name), str)(amount)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes writes them, by name."""
    return {name: render(name, amount) for name, amount in amounts.items()}


def render_short(name: str, amount: int) -> str:
    """Return what `render` gives if that is short, else the amount in its largest unit with one decimal."""
    exact = render(name, amount)
    if len(exact) <= LONGEST_EXACT or kind(name) is not Kind.MEMORY:
        return exact
    suffix, unit = next(((suffix, unit) for suffix, unit in _UNITS if amount >= unit), ("", 1))
    return f"{amount / unit:.1f}{suffix}"


def readable_zone(name: str) -> str:
    """Return a readable name of a zone: `zone 0` for `node-0`; other names are unchanged."""
    match = _ZONE_NAME.fullmatch(name)
    return f"zone {match[1]}" if match else name


_ZONE_NAME = re.compile(r"(?:[a-z]+-)*node-([0-9]{1,9})")
