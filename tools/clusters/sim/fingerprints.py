"""Fingerprints of sets of pods, as exporters publish them.

By a hash of names, readers of a topology check whether they know the pods that its `available` accounts for.
This follows the definition, not another implementation: tests of a reader need a writer that cannot share its
mistakes. Source: k8stopologyawareschedwg/podfingerprint (README.md, fingerprint.go).
"""

from collections.abc import Iterable
from enum import StrEnum

import xxhash


class Fingerprint(StrEnum):
    """Which pods a fingerprint includes: the attribute `nodeTopologyPodsFingerprintMethod`."""

    ALL = "all"
    EXCLUSIVE = "with-exclusive-resources"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, by namespace and name; their order does not matter."""
    identities = (
        xxhash.xxh64_intdigest(name.encode(), seed=xxhash.xxh64_intdigest(namespace.encode()))
        for namespace, name in pods
    )
    content = b"".join(each.to_bytes(8, "little") for each in sorted(identities))
    return f"pfp0v001{xxhash.xxh64_hexdigest(content)}"
