"""What is kept of pods that are gone."""

import asyncio
from collections.abc import Iterable

import orjson

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tests.system.attack.objects import Json
from tools.clusters import http_calls
from tools.clusters.programs import ApiServer

PODS = 400
ENTRIES, LONG_NAME = 250, 1000
"""Of a record: as many as are read, and together as long as an API server stores."""

UIDS, LONG_UID = 4000, 20_000
KEYS, LONG_KEY = 150, 1_000_000
MOST_MIB = 64


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
    async with arena.honest(scorer, most=MOST_MIB):
        await one_at_a_time(api, written)


async def one_at_a_time(api: ApiServer, pods: Iterable[tuple[str, bytes]]) -> None:
    async with http_calls.connection(api.door) as made:
        for path, written in pods:
            assert (await made.call("POST", objects.PODS, written)).well
            await asyncio.sleep(0.005)
            assert (await made.call("DELETE", path)).well


async def test_long_uids_of_pods_that_never_are_are_not_kept(arena: Arena) -> None:
    scorer = await arena.scorer()
    bodies = (objects.filtering(of_long_uid(at), arena.names) for at in range(UIDS))
    async with arena.honest(scorer, most=MOST_MIB):
        await send(scorer.door, "/filter", bodies, at_once=4)


def of_long_uid(number: int) -> Json:
    """A pod that nobody makes, whose uid is longer than any."""
    made = objects.pod("asked", {"cpu": "1", "memory": "1Gi"})
    return {**made, "metadata": {**made["metadata"], "uid": f"{number}-{'u' * LONG_UID}"}}


async def test_long_impossible_label_keys_are_not_stored(arena: Arena) -> None:
    webhook = await arena.webhook()
    async with arena.honest(webhook, most=MOST_MIB):
        await send(webhook.door, "/validate", map(of_long_key, range(KEYS)), at_once=1)


def of_long_key(number: int) -> bytes:
    """The review of a pod that selects nodes by a label whose key is as long as an API server stores."""
    made = objects.pod("selective")
    selected = {"nodeSelector": {f"{number}-{'k' * LONG_KEY}": ""}}
    return objects.review({**made, "spec": {**made["spec"], **selected}})
