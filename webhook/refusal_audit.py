"""
One line of JSON for each review that is refused, for whoever has to account for refusals.

Names and messages hold what tenants wrote: each text is cut to so many bytes, and everything but printable
ASCII is escaped, so that no line is longer than `LONGEST_LINE`, none becomes two, and none steers a terminal.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, islice, takewhile
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.decode.parts import Part
from numalign.runtime.clock import Clock
from numalign.runtime.metrics import PREFIX
from webhook.review import Denied, Review

LONGEST_LINE = 4096
"""Bytes with the line break: what a pipe takes in one piece (PIPE_BUF on Linux, pipe(7))."""

MOST_OWNERS_READ = 16
"""Of one object; nearly all have one."""

_LONGEST: Mapping[str, int] = MappingProxyType(
    {
        "uid": 128,
        "webhook": 32,
        "user": 512,
        "namespace": 256,
        "kind": 128,
        "name": 512,
        "owner": 640,
        "level": 32,
        "policy": 32,
        "state": 32,
        "reason": 1024,
    }
)
"""Bytes of each text, as JSON writes it."""


def audit_lines(registry: CollectorRegistry) -> Counter:
    """Counts lines by what became of them."""
    return Counter(
        f"{PREFIX}audit_lines",
        "Audit lines of denied reviews, by result.",
        ["result"],
        registry=registry,
    )


@dataclass(frozen=True, slots=True)
class RefusalAudit:
    """Has a line of each refusal written by `write`, which never waits; `wall` tells the time."""

    write: Callable[[bytes], object]
    wall: Clock

    def refused(self, review: Review, webhook: str, denied: Denied, *, nodes: int) -> None:
        """Have a refusal written; `nodes` is how many of known topology there are."""
        self.write(line(review, webhook, denied, nodes=nodes, now=self.wall()))


def line(review: Review, webhook: str, denied: Denied, *, nodes: int, now: datetime) -> bytes:
    """A refusal, in at most `LONGEST_LINE` bytes with the line break to come."""
    metadata = Part(review.object)["metadata"]
    texts = {
        "uid": review.uid,
        "webhook": webhook,
        "user": review.user.username,
        "namespace": review.namespace,
        "kind": review.kind.kind,
        "name": review.name or metadata["name"].text() or metadata["generateName"].text(),
        "owner": _owner(metadata),
        "level": denied.audit.get("level", ""),
        "policy": denied.audit.get("policy", ""),
        "state": denied.audit.get("state", denied.audit["verdict"]),
        "reason": denied.message,
    }
    moment = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cut = {name: cut_to(text, _LONGEST[name]) for name, text in texts.items()}
    shown = {"time": moment, **cut, "dry_run": review.dry_run, "nodes": nodes}
    return json.dumps(shown, separators=(",", ":")).encode("ascii")


def _owner(metadata: Part) -> str:
    """Kind and name of the controller that made the object; empty where there is none among the first."""
    for owner in islice(metadata["ownerReferences"].elements(), MOST_OWNERS_READ):
        if owner["controller"].value is True:
            return f"{owner['kind'].text()}/{owner['name'].text()}"
    return ""


def cut_to(text: str, most: int) -> str:
    """The beginning of a text that takes at most so many bytes as JSON, quotes left out."""
    beginning = text[:most]
    if len(json.dumps(beginning)) - 2 <= most:
        return beginning
    lengths = accumulate(len(json.dumps(character)) - 2 for character in beginning)
    return beginning[: sum(1 for _ in takewhile(lambda length: length <= most, lengths))]
