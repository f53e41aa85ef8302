"""Lines of refused reviews: what stands in them, and what tenants can make of them."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.errors import Mistake
from tests.unit.webhook.test_handlers import BROKEN, CLUSTER, FITS, NEVER, SILENT, SINGLE
from tests.worlds.webhook import UID, Webhook, raw, request
from webhook import refusal_audit
from webhook.refusal_audit import LONGEST_LINE, RefusalAudit
from webhook.review import Denied, Review, StatusReason, read

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
OWNERS = [{"kind": "Job", "name": "other"}, {"kind": "ReplicaSet", "name": "web-1", "controller": True}]
REFUSED = Denied(reason=StatusReason.FORBIDDEN, message="numalign: no.", audit={"verdict": "denied"})


def line_of(review: Review, denied: Denied = REFUSED) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(refusal_audit.line(review, "validate", denied, nodes=3, now=NOW))
    return found


def review_of(made: object, **changes: object) -> Review:
    return read(orjson.dumps(request(made, **changes)))


def test_line_has_user_pod_owner_and_reason() -> None:
    made = raw("cpu=1")
    made["metadata"] |= {"name": "", "generateName": "web-1-", "ownerReferences": OWNERS}
    audit = {"verdict": "denied", "state": "below-enforced", "policy": "nothing", "level": "restricted"}
    denied = Denied(reason=StatusReason.FORBIDDEN, message="numalign: it asks for less.", audit=audit)
    review = review_of(made, namespace="team", dryRun=True, userInfo={"username": "alice"})

    assert line_of(review, denied) == {
        "time": "2026-01-02T03:04:05.678Z", "uid": UID, "webhook": "validate", "user": "alice",
        "namespace": "team", "kind": "Pod", "name": "web-1-", "owner": "ReplicaSet/web-1",
        "level": "restricted", "policy": "nothing", "state": "below-enforced",
        "reason": "numalign: it asks for less.", "dry_run": True, "nodes": 3,
    }  # fmt: skip


def test_line_has_no_annotations() -> None:
    made = raw("cpu=1", annotations={"secret": "xyzzy"})
    assert b"xyzzy" not in refusal_audit.line(review_of(made), "validate", REFUSED, nodes=1, now=NOW)


def test_unreadable_pod_is_logged_as_invalid() -> None:
    mistakes = (Mistake("a", "b"),)
    denied = Denied(reason=StatusReason.INVALID, message="m", causes=mistakes, audit={"verdict": "invalid"})
    found = line_of(review_of(FITS), denied)
    assert (found["state"], found["policy"], found["level"]) == ("invalid", "", "")


@pytest.mark.parametrize("text", ["\n", '"', "\x1b[31m", "\u2028", "\x7f", "\u202e", "😀", "x" * 1000])
def test_any_text_becomes_one_short_printable_line(text: str) -> None:
    made = raw("cpu=1")
    owners = [{"kind": text * 9, "name": text * 99, "controller": True}]
    made["metadata"] |= {"name": text * 300, "ownerReferences": owners}
    denied = Denied(reason=StatusReason.FORBIDDEN, message=text * 2000, audit={"verdict": "denied"})
    written = refusal_audit.line(review_of(made), "validate", denied, nodes=1, now=NOW)

    assert len(written) < LONGEST_LINE
    assert set(written) <= set(range(0x20, 0x7F))
    assert json.loads(written)["reason"][:1] == text[:1]


def test_of_very_many_owners_the_first_are_read() -> None:
    made = raw("cpu=1")
    others = [{"kind": "Job", "name": "a"}] * 50_000
    made["metadata"]["ownerReferences"] = [*others, OWNERS[1]]
    assert line_of(review_of(made))["owner"] == ""


@given(st.text(), st.integers(1, 40))
def test_text_is_cut_at_the_limit_only(text: str, most: int) -> None:
    kept = refusal_audit.cut_to(text, most)
    assert text.startswith(kept)
    assert len(json.dumps(kept)) - 2 <= most
    assert kept == text or len(json.dumps(text[: len(kept) + 1])) - 2 > most


async def test_every_denial_is_logged_and_nothing_else(webhook: Webhook) -> None:
    await webhook.know(CLUSTER, team={"enforce": "restricted"}, lax={})
    written = list[bytes]()
    webhook.audit = RefusalAudit(written.append, lambda: NOW)
    async with webhook.open(workloads="deny") as caller:
        for made, namespace in ((FITS, "team"), (SILENT, "team"), (NEVER, "lax"), (BROKEN, "lax")):
            answer = await caller.ask("/validate", made, namespace=namespace)
            assert answer["allowed"] == (made is FITS)

    lines = [json.loads(line) for line in written]
    assert [(line["state"], line["policy"], line["level"]) for line in lines] == [
        ("below-enforced", "nothing", "restricted"),
        ("never", SINGLE, ""),
        ("invalid", "", ""),
    ]
    assert {line["nodes"] for line in lines} == {3}
