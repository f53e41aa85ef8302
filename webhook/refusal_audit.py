"""
Write one line of JSON for each denied review, for audits.

Names and messages contain text of tenants: each text is cut to a number of bytes, and everything but
printable ASCII is escaped. So no line is longer than `LONGEST_LINE`, no text contains a line break, and none
controls a terminal.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, islice, takewhile

from numalign.kube.decode.parts import Part
from numalign.runtime.clock import Clock
from webhook.review import Denied, Review

LONGEST_LINE = 4096  # Bytes with the line break: what a pipe accepts atomically (PIPE_BUF on Linux, pipe(7)).
MOST_OWNERS_READ = 16  # Most owner references that are read of one object; nearly all have one.


@dataclass(frozen=True, slots=True)
class RefusalAudit:
    """Writes a line for each denial with `write`, which never blocks; `wall` returns the time."""

    write: Callable[[bytes], object]
    wall: Clock

    def refused(self, review: Review, webhook: str, denied: Denied, *, nodes: int) -> None:
        """Write a denial; `nodes` is the number of nodes with known topology."""
        self.write(line(review, webhook, denied, nodes=nodes, now=self.wall()))


def line(review: Review, webhook: str, denied: Denied, *, nodes: int, now: datetime) -> bytes:
    """Return a denial as at most `LONGEST_LINE` bytes, including the line break to be added."""
    metadata = Part(review.object)["metadata"]
    owners = islice(metadata["ownerReferences"].elements(), MOST_OWNERS_READ)
    owner = next((owner for owner in owners if owner["controller"].value is True), None)
    # Most bytes of each text as JSON.
    texts = {
        "uid": (review.uid, 128),
        "webhook": (webhook, 32),
        "user": (review.username, 512),
        "namespace": (review.namespace, 256),
        "kind": (review.kind.kind, 128),
        "name": (review.name or metadata["name"].text() or metadata["generateName"].text(), 512),
        "owner": (f"{owner['kind'].text()}/{owner['name'].text()}" if owner else "", 640),
        "level": (denied.audit.get("level", ""), 32),
        "policy": (denied.audit.get("policy", ""), 32),
        "state": (denied.audit.get("state", denied.audit["verdict"]), 32),
        "reason": (denied.message, 1024),
    }
    moment = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cut = {name: cut_to(text, most) for name, (text, most) in texts.items()}
    shown = {"time": moment, **cut, "dry_run": review.dry_run, "nodes": nodes}
    return json.dumps(shown, separators=(",", ":")).encode("ascii")


def cut_to(text: str, most: int) -> str:
    """Return the longest beginning of a text with at most `most` bytes as JSON, without quotes."""
    beginning = text[:most]
    if len(json.dumps(beginning)) - 2 <= most:
        return beginning
    lengths = accumulate(len(json.dumps(character)) - 2 for character in beginning)
    return beginning[: sum(1 for _ in takewhile(lambda length: length <= most, lengths))]
