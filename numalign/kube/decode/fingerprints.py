"""
The pods that a topology accounts for.

An exporter looks at a node at some moment, and what it publishes is seen later: meanwhile pods have come and
gone. So it adds a fingerprint of the pods that it saw. The pods cannot be derived from it, but candidates can
be tried, which shows what the amounts include.

The fingerprint is that of github.com/k8stopologyawareschedwg/podfingerprint: of the namespace and name of
each pod, independent of their order.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, compress, islice

from xxhash import xxh64_hexdigest, xxh64_intdigest

from numalign.ledger.model import PodName

PREFIX = "pfp0v001"
MOST_TRIES = 4096
"""The limit of sets of pods that are tried before a fingerprint counts as one of unknown pods."""

_SHAPE = re.compile(PREFIX + "[0-9a-f]{16}")


class Method(StrEnum):
    """Which pods of a node are in a fingerprint, in the exporter's words.

    Those `WITH_EXCLUSIVE_RESOURCES` are Guaranteed with whole CPUs, memory or hugepages, or have devices that
    the topology lists.
    """

    ALL = "all"
    WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of a set of pods, and which pods of a node it includes."""

    value: str
    method: Method = Method.ALL


def parse(value: object, method: object) -> Fingerprint | None:
    """Return an exporter's fingerprint, by default of all pods; None if it or its method is not known."""
    if not isinstance(value, str) or not _SHAPE.fullmatch(value):
        return None
    if not isinstance(method, str | None) or method not in {None, *Method}:
        return None
    return Fingerprint(value, Method(method or Method.ALL))


def fingerprint(pods: Iterable[PodName]) -> str:
    """Return the fingerprint of a set of pods, in any order."""
    return _value(pod_hash.to_bytes(8, "little") for pod_hash in sorted(map(_hash, pods)))


def accounted(
    published: Fingerprint,
    certain: Iterable[PodName],
    uncertain: Iterable[PodName],
    *,
    tries: int = MOST_TRIES,
) -> frozenset[PodName] | None:
    """Return the uncertain pods that are in a fingerprint together with all the certain ones.

    Return None if no set of them matches, as far as tried: all of them first, then none, then all but one,
    then a single one, and so on, the first pods before the others.
    """
    sure = frozenset(certain)
    doubted = [pod for pod in dict.fromkeys(uncertain) if pod not in sure]
    hashes = {pod: _hash(pod) for pod in (*sure, *doubted)}
    pods = sorted(hashes, key=hashes.__getitem__)
    pieces = [hashes[pod].to_bytes(8, "little") for pod in pods]
    places = {pod: at for at, pod in enumerate(pods)}
    for chosen in islice(_choices(len(pods), [places[pod] for pod in doubted]), tries):
        if _value(compress(pieces, chosen)) == published.value:
            return frozenset(compress(pods, chosen)) - sure
    return None


def _choices(size: int, doubted: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield every choice of doubted pods once, with 1 for each pod in it; certain pods always are."""
    every = bytearray(b"\1" * size)
    none = _flipped(every, doubted)
    for few in range(len(doubted) // 2 + 1):
        # Leaving out half of them is the same as taking the other half.
        for start in (every, none) if 2 * few < len(doubted) else (every,):
            for some in combinations(doubted, few):
                yield _flipped(start, some)


def _flipped(choice: bytearray, places: Iterable[int]) -> bytearray:
    flipped = bytearray(choice)
    for place in places:
        flipped[place] ^= 1
    return flipped


def _hash(pod: PodName) -> int:
    namespace, name = pod
    return xxh64_intdigest(name.encode(), seed=xxh64_intdigest(namespace.encode()))


def _value(pieces: Iterable[bytes]) -> str:
    return PREFIX + xxh64_hexdigest(b"".join(pieces))
