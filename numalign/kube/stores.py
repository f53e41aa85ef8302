"""
The decoded objects of a cluster, kind by kind.

Each object is decoded when it arrives and its text is dropped. An exporter writes every node again and again,
nearly always unchanged: so an object with a known digest is not even decoded, and an equal result changes
nothing.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from sys import intern
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import orjson

from numalign.kube.decode import koordinator, kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import (
    MACHINE,
    OBSERVED_AT,
    PLACEMENTS,
    MachineReport,
    ObservedPlacement,
)
from numalign.kube.decode.nrt import FINGERPRINT_ANNOTATION, MANAGED_BY, Topology
from numalign.kube.decode.parts import Part, inner
from numalign.lru import LRU, digest
from numalign.model.errors import BadInput, BadTopology, Mistake, one_line
from numalign.model.machine import LARGE

Decoded = TypeVar("Decoded")
Decoder = Callable[[Mapping[str, object]], tuple[Decoded | None, tuple[Mistake, ...]]]
"""Returns the decoded object, None if it is invalid, and all its errors."""

Placements = Mapping[str, ObservedPlacement]
"""What each pod of a node holds, by uid."""

MOST_REPORTS = 256
"""The limit of machines of different reports that are cached for other nodes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An object that was left out, at least in part, and all its mistakes."""

    kind: str
    name: str
    mistakes: tuple[Mistake, ...]

    def __str__(self) -> str:
        """Return every mistake on its own line, each with the object it is in."""
        return "\n".join(f"{self.kind} {one_line(self.name)}: {mistake}" for mistake in self.mistakes)


class Store(Generic[Decoded]):
    """The decoded objects of one cluster-scoped kind, by name.

    `decode` returns the decoded object, None if it is invalid, and all its mistakes. Objects with the same
    `digest` are decoded to the same; None means that it has to be decoded. `version` grows with every change
    of decoded objects, and `changed` holds their names, until they are taken out.
    """

    def __init__(
        self,
        kind: str,
        decode: Decoder[Decoded],
        digest: Callable[[Mapping[str, object]], bytes | None] = lambda _raw: None,
    ) -> None:
        self.kind = kind
        self.version = 0
        self.changed: set[str] = set()
        self._decode, self._digest = decode, digest
        self._digests: dict[str, bytes | None] = {}
        self._decoded: dict[str, Decoded | None] = {}
        self._mistakes: dict[str, tuple[Mistake, ...]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._decoded

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all objects, including those that could not be decoded."""
        return iter(self._decoded)

    def get(self, name: str) -> Decoded | None:
        """Return the decoded object; None if it does not exist, or could not be decoded."""
        return self._decoded.get(name)

    def view(self) -> Mapping[str, Decoded | None]:
        """Return a view of the decoded objects, which is always current."""
        return MappingProxyType(self._decoded)

    def decoded(self) -> Iterator[tuple[str, Decoded]]:
        """Return the names and decoded objects, of all that could be decoded."""
        return ((name, decoded) for name, decoded in self._decoded.items() if decoded is not None)

    def put(self, name: str, raw: Mapping[str, object]) -> None:
        """Add an object, or replace the one of its name; an equal decoded object changes nothing."""
        digest = self._digest(raw)
        if digest is not None and self._digests.get(name) == digest:
            return
        self._digests[name] = digest
        decoded, mistakes = self._decode(raw)
        before = (self._decoded.get(name), self._mistakes.get(name, ()))
        # Equal objects stay the same, so that a heartbeat joins nothing again.
        if name in self._decoded and before == (decoded, mistakes):
            return
        self._change(name)
        self._decoded[intern(name)] = decoded
        self._mistakes.pop(name, None)
        if mistakes:
            self._mistakes[name] = mistakes

    def drop(self, name: str) -> None:
        """Remove an object, if it exists."""
        if name in self._decoded:
            self._change(name)
            del self._decoded[name], self._digests[name]
            self._mistakes.pop(name, None)

    def keep(self, names: AbstractSet[str]) -> None:
        """Remove all other objects, as after a complete list."""
        for name in self._decoded.keys() - names:
            self.drop(name)

    def _change(self, name: str) -> None:
        self.version += 1
        self.changed.add(name)

    def problem(self, name: str) -> Iterator[Problem]:
        """Yield the mistakes of an object, if it has any."""
        if mistakes := self._mistakes.get(name):
            yield Problem(self.kind, name, mistakes)


class TopologyStore(Store[Topology]):
    """The topologies of nodes, and the agents' annotations beside them, each in its own store.

    `observed_at` is when the agent of a node last looked, in seconds since 1970. Agents write it again and
    again, so it changes in place, without a new version.
    """

    def __init__(self) -> None:
        super().__init__(nrt.KIND, _topology, _digest)
        self.reports = LRU[bytes, MachineReport](
            MOST_REPORTS, large=lambda _, report: report.machine.cpus.bit_length() > LARGE
        )
        self.machines = _annotation(MACHINE, self._machine)
        self.placements = _annotation(PLACEMENTS, kubelet_reports.read_placements)
        self.observed_at = _annotation(OBSERVED_AT, _moment)
        self._beside: Mapping[str, Store[Any]] = {
            MACHINE: self.machines,
            PLACEMENTS: self.placements,
            OBSERVED_AT: self.observed_at,
        }

    def put(self, name: str, raw: Mapping[str, object]) -> None:
        """Add or replace a topology; its annotations are decoded only if their text changed."""
        super().put(name, raw)
        for key, store in self._beside.items():
            if _written(raw, key) is None:
                store.drop(name)
            else:
                store.put(name, raw)

    def drop(self, name: str) -> None:
        """Remove a topology with its annotations."""
        super().drop(name)
        for store in self._beside.values():
            store.drop(name)

    def _machine(self, text: object) -> MachineReport:
        """Return a report, the same object for all nodes with the same text."""
        if not isinstance(text, str):
            return kubelet_reports.read_machine(text, "")
        key = digest(text.encode(errors="surrogatepass"))
        return self.reports.get(key, lambda: kubelet_reports.read_machine(text, ""))


def _topology(raw: Mapping[str, object]) -> tuple[Topology | None, tuple[Mistake, ...]]:
    """Return a topology; one with odd amounts is valid without these."""
    read, mistakes = sensible(nrt.topology)(raw)
    return read, read.odd if read else mistakes


def sensible(decode: Callable[[Mapping[str, object]], Decoded]) -> Decoder[Decoded]:
    """Return a decoder that returns the mistakes instead of raising them."""

    def attempt(raw: Mapping[str, object]) -> tuple[Decoded | None, tuple[Mistake, ...]]:
        try:
            return decode(raw), ()
        except BadInput as error:
            return None, error.mistakes

    return attempt


def _annotation(key: str, read: Callable[[object], Decoded]) -> Store[Decoded]:
    """Return a store for an annotation of topologies."""

    def decode(raw: Mapping[str, object]) -> Decoded:
        try:
            return read(_written(raw, key))
        except BadInput as error:
            raise BadTopology(
                mistake.under(f"metadata.annotations[{key}]") for mistake in error.mistakes
            ) from error

    return Store(nrt.KIND, sensible(decode), lambda raw: _digest_of(_written(raw, key)))


def _written(raw: Mapping[str, object], key: str) -> object:
    """Return an annotation; None if it does not exist."""
    return inner(inner(raw.get("metadata"), "annotations"), key)


def _digest(raw: Mapping[str, object]) -> bytes | None:
    """Return a digest of all that `nrt.topology` reads."""
    metadata, fingerprint = raw.get("metadata"), _written(raw, FINGERPRINT_ANNOTATION)
    label = inner(inner(metadata, "labels"), MANAGED_BY)
    # They are read only of labelled objects.
    texts = [_written(raw, key) for key in koordinator.ANNOTATIONS] if label is not None else []
    known = inner(metadata, "name"), label, fingerprint, texts
    return _digest_of([*known, *map(raw.get, ("apiVersion", "topologyPolicies", "attributes", "zones"))])


def _digest_of(value: object) -> bytes | None:
    """Return the same digest for the same value; None for one that is not JSON."""
    try:
        return hashlib.blake2b(orjson.dumps(value), digest_size=16).digest()
    except orjson.JSONEncodeError:
        return None


def _moment(text: object) -> float:
    part = Part(text)
    read = part.time()
    part.raise_mistakes(BadTopology)
    return float(read)
