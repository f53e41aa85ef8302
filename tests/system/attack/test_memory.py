"""What is kept of pods that are gone, of what was never there, and of what tenants make."""

import asyncio

import orjson

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tests.system.attack.objects import Json
from tools.clusters import http_calls
from tools.clusters.http_calls import samples
from tools.clusters.processes import until
from tools.clusters.programs import MIB

PODS = 400
ENTRIES, LONG_NAME = 250, 1000
"""Of a record: as many as are read, and together as long as an API server stores."""

UIDS, LONG_UID = 4000, 20_000
KEYS, LONG_KEY = 150, 1_000_000
MOST_MIB = 64


def changed(made: Json, part: str, **changes: object) -> Json:
    return {**made, part: {**made[part], **changes}}


def recorded(number: int) -> Json:
    """A pod whose record is as long as an API server stores, and like no other."""
    zones = [f"{number}-{at}-{'z' * LONG_NAME}" for at in range(ENTRIES)]
    record = orjson.dumps([{"zones": [zone], "amount": {"cpu": "1"}} for zone in zones]).decode()
    return objects.pod(f"recorded-{number}", placement=record)


async def test_long_records_of_pods_that_are_gone_are_not_kept(arena: Arena) -> None:
    api = await arena.api_server()
    scorer = await arena.scorer(api=api)
    pods = [objects.on(arena.names[at % objects.NODES], recorded(at)) for at in range(PODS)]
    # Bytes beforehand: what this process is busy with, honest callers in it wait for.
    written = [(objects.path(each), orjson.dumps(each)) for each in pods]
    async with arena.honest(scorer, most=MOST_MIB), http_calls.connection(api.door) as made:
        for path, body in written:
            assert (await made.call("POST", objects.PODS, body)).well
            await asyncio.sleep(0.005)
            assert (await made.call("DELETE", path)).well


async def test_long_uids_of_pods_that_never_are_are_not_kept(arena: Arena) -> None:
    scorer = await arena.scorer()
    asked = objects.pod("asked", {"cpu": "1", "memory": "1Gi"})
    bodies = (
        objects.filtering(changed(asked, "metadata", uid=f"{at}-{'u' * LONG_UID}"), arena.names)
        for at in range(UIDS)
    )
    async with arena.honest(scorer, most=MOST_MIB):
        await send(scorer.door, "/filter", bodies, at_once=4)


async def test_long_impossible_label_keys_are_not_stored(arena: Arena) -> None:
    """Of pods that select nodes by a label whose key is as long as an API server stores."""
    webhook = await arena.webhook()
    selective = objects.pod("selective")
    bodies = (
        objects.review(changed(selective, "spec", nodeSelector={f"{at}-{'k' * LONG_KEY}": ""}))
        for at in range(KEYS)
    )
    async with arena.honest(webhook, most=MOST_MIB):
        await send(webhook.door, "/validate", bodies, at_once=1)


# ---- what one tenant's pods can take of memory as long as they exist


WAITING, NAMES, CONTAINERS = 150, 2_000, 16
"""Pods of so many resources, that wait as long as their owner likes; each took hundreds of KB."""

MOST_GROWTH_MIB = 50


def waiting(number: int) -> Json:
    """A pod that nobody places, of thousands of resources that no other pod names."""
    each = NAMES // CONTAINERS
    names = [[f"x.io/{number}-{at}-{name}" for name in range(each)] for at in range(CONTAINERS)]
    made = objects.pod(f"waits-{number}", *(dict.fromkeys(some, "1") for some in names))
    return {**made, "status": {"phase": "Pending"}}


async def test_distinct_pods_take_bounded_memory(arena: Arena) -> None:
    api = await arena.api_server()
    webhook, scorer = await arena.webhook(api=api), await arena.scorer(api=api)
    written = [orjson.dumps(waiting(at)) for at in range(WAITING)]
    before = [each.memory().now for each in (webhook, scorer)]
    async with http_calls.connection(api.door) as made:
        for body in written:
            assert (await made.call("POST", objects.PODS, body)).well

    async def all_seen() -> bool:
        return await webhook.metric("numalign_pods_too_large") == WAITING

    await until(all_seen, what="all pods", child=webhook.child)
    after = [each.memory().most for each in (webhook, scorer)]
    grown = [(now - then) / MIB for now, then in zip(after, before, strict=True)]
    assert max(grown) < MOST_GROWTH_MIB


# ---- the page of metrics, where tenants choose what is counted


UNKNOWN = 2_000
LONGEST_NAME = 5_000
AUDITED = {"defaults": [{"audit": "single-numa-node"}]}
MOST_SERIES, MOST_BYTES = 100, 100_000


async def test_namespaces_that_there_are_not_get_no_series(arena: Arena) -> None:
    webhook = await arena.webhook("--policy", str(arena.here.file("policy.yaml", AUDITED)))
    before = await webhook.metrics()
    made, long = objects.pod("short", policy=None), "n" * LONGEST_NAME
    bodies = (objects.review(made, namespace=f"unknown-{at}-{long}") for at in range(UNKNOWN))
    async with arena.honest(webhook, most=MOST_MIB):
        statuses = await send(webhook.door, "/validate", bodies, at_once=8)
    after = await webhook.metrics()
    # A slow machine does not get through all of them, but through more than there may be series.
    assert statuses.count(200) > MOST_SERIES
    assert await webhook.metric("numalign_reviews_below_total") >= statuses.count(200)
    assert len(samples(after)) - len(samples(before)) < MOST_SERIES
    assert len(after) - len(before) < MOST_BYTES
