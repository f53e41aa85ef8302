"""Fingerprints of sets of pods, as exporters put them beside what they publish.

Who reads a topology wants to know which pods its `available` accounts for; a hash of their names tells
whether it is those one knows. Written here from the definition and not from anybody's use of it: tests of a
reader need a writer that cannot share its mistakes.

Source: k8stopologyawareschedwg/podfingerprint (README.md, fingerprint.go).
"""

from collections.abc import Iterable
from enum import StrEnum

import xxhash

PREFIX, VERSION = "pfp0", "v001"


class Fingerprint(StrEnum):
    """Which pods are in it, as the attribute `nodeTopologyPodsFingerprintMethod` says."""

    ALL = "all"
    EXCLUSIVE = "with-exclusive-resources"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Of pods by namespace and name; their order does not matter."""
    stream = xxhash.xxh64()
    for each in sorted(_identity(namespace, name) for namespace, name in pods):
        stream.update(each.to_bytes(8, "little"))
    return f"{PREFIX}{VERSION}{stream.hexdigest()}"


def _identity(namespace: str, name: str) -> int:
    return xxhash.xxh64_intdigest(name.encode(), seed=xxhash.xxh64_intdigest(namespace.encode()))
