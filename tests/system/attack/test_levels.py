"""A tenant in a namespace that enforces a level: with other annotations, or faster than a watch."""

from http import HTTPStatus

import orjson
import pytest

from tests.system.attack import attackers, objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import SINGLE
from tests.worlds.notation import GPU, HUGE_2M, table
from tools.clusters.http_calls import Door, once

STRICT = "strict"
AMOUNTS = {"cpu": 32, "memory": 128 * 2**30, GPU: 4}
ASKED = {"cpu": "8", "memory": "16Gi", GPU: "2"}

LISTED = [
    # what it lists                   names            whether it is admitted
    ("memory alone",                  "memory",        False),
    ("a prefix of it",                "mem*",          False),
    ("huge pages that no node has",   HUGE_2M,         False),
    ("what it does not request",      "example.com/a", False),
    ("devices alone",                 GPU,             False),
    ("everything",                    f"cpu,mem*,{GPU}", True),
]  # fmt: skip


@pytest.mark.parametrize(("names", "admitted"), table(LISTED))
async def test_level_cannot_be_bypassed(arena: Arena, names: str, *, admitted: bool) -> None:
    arena.put(
        objects.namespace(STRICT, enforce=SINGLE), *objects.node("two", zones=2, amounts=AMOUNTS, free=100)
    )
    webhook = await arena.webhook()
    made = objects.pod("sly", {**ASKED, **({HUGE_2M: "2Mi"} if names == HUGE_2M else {})}, resources=names)

    assert await allowed(webhook.door, objects.review(made, namespace=STRICT)) is admitted


async def allowed(door: Door, review: bytes) -> bool:
    answer = await once(door, "POST", "/validate", review)
    return bool(orjson.loads(answer.body)["response"]["allowed"])


async def test_webhook_alone_keeps_the_policy_of_a_pod(arena: Arena) -> None:
    arena.put(objects.namespace(STRICT, enforce=SINGLE))
    webhook = await arena.webhook()
    before, after = objects.pod("sly", ASKED), objects.pod("sly", ASKED, policy=None)

    for part in ("", "status"):
        change = {"operation": "UPDATE", "subResource": part, "oldObject": before}
        assert await allowed(webhook.door, objects.review(before, namespace=STRICT, **change))
        assert not await allowed(webhook.door, objects.review(after, namespace=STRICT, **change))


async def test_pod_without_its_policy_gets_the_enforced_one(arena: Arena) -> None:
    arena.put(
        objects.namespace(STRICT, enforce=SINGLE),
        *objects.node("two", zones=2, amounts=AMOUNTS, free=100),
        *objects.node("loose", zones=2, policy="none", amounts=AMOUNTS, free=100),
    )
    scorer = await arena.scorer()
    made = objects.pod("sly", ASKED, policy=None)
    made["metadata"]["namespace"] = STRICT
    answer = await once(scorer.door, "POST", "/filter", objects.filtering(made, ["two", "loose"]))

    assert orjson.loads(answer.body)["NodeNames"] == ["two"]


async def test_new_level_applies_before_the_watch_delivers_it(arena: Arena) -> None:
    api = await arena.api_server()
    webhook = await arena.webhook(api=api)
    fast, strict = objects.pod("fast", ASKED, policy=None), objects.namespace(STRICT, enforce=SINGLE)
    made = await once(api.door, "POST", "/api/v1/namespaces", orjson.dumps(strict))

    assert made.status == HTTPStatus.CREATED
    assert not await allowed(webhook.door, objects.review(fast, namespace=STRICT))

    # Nor is it called for every name that somebody makes up.
    invented = (objects.review(fast, namespace=f"invented-{number}") for number in range(300))
    async with arena.honest(webhook, most=16):
        statuses = await attackers.send(webhook.door, "/validate", invented, at_once=20)
    assert {*statuses} == {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
