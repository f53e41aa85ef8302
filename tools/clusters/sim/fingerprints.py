"""Fingerprints of sets of pods, as exporters publish them.

A reader of a topology needs to know which pods its `available` accounts for; by a hash of their names it can
check whether it knows the same pods. This implementation follows the definition, not another implementation:
tests of a reader need a writer that cannot share its mistakes.

Source: k8stopologyawareschedwg/podfingerprint (README.md, fingerprint.go).
"""

from collections.abc import Iterable
from enum import StrEnum

import xxhash

PREFIX, VERSION = "pfp0", "v001"


class Fingerprint(StrEnum):
    """Which pods a fingerprint includes: the attribute `nodeTopologyPodsFingerprintMethod`."""

    ALL = "all"
    EXCLUSIVE = "with-exclusive-resources"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, by namespace and name; their order does not matter."""
    stream = xxhash.xxh64()
    for each in sorted(_identity(namespace, name) for namespace, name in pods):
        stream.update(each.to_bytes(8, "little"))
    return f"{PREFIX}{VERSION}{stream.hexdigest()}"


def _identity(namespace: str, name: str) -> int:
    return xxhash.xxh64_intdigest(name.encode(), seed=xxhash.xxh64_intdigest(namespace.encode()))
