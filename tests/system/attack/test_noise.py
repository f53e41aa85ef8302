"""What fills logs, and what comes all at once."""

import asyncio
from http import HTTPStatus

import orjson

from tests.system.attack import attackers, objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import STRANGER, held
from tools.clusters import http_calls
from tools.clusters.http_calls import once

MOST_MIB = 96
"""75 are typical, and the chart's limit is 512Mi for the webhook, and more for the scorer."""

MOST_LINES = 60

GARBAGE = {
    "no HTTP at all": b"\x00\xff\xfe garbage\r\n\r\n",
    "a method that is none": b"\x01\x02\x03 / HTTP/1.1\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "a length that is no number": b"POST /validate HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    "a chunk that is no number": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a header as long as a book": b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
}


async def test_invalid_http_and_slow_bodies_do_not_flood_the_log(arena: Arena) -> None:
    scorer = await arena.scorer()
    for what, written in GARBAGE.items():
        before = scorer.child.log.stat().st_size
        async with arena.honest(scorer, most=MOST_MIB):
            for _ in range(20):
                async with held(scorer.door, written, sockets=50):
                    await asyncio.sleep(0.05)
        output = scorer.child.log.read_bytes()[before:]
        assert output.count(b"\n") <= MOST_LINES, what
        assert b"Traceback" not in output, what
    begun = attackers.announced("/filter", 10)
    async with arena.honest(scorer, most=MOST_MIB), held(scorer.door, begun, sockets=1000):
        await asyncio.sleep(8)
    assert len(scorer.events("request.slow")) <= MOST_LINES


async def test_topology_of_a_thousand_zones_delays_no_caller(arena: Arena) -> None:
    api = await arena.api_server()
    webhook, scorer = await arena.webhook(api=api), await arena.scorer(api=api)
    amounts = {"cpu": 8, "memory": 2**30}
    _, topology = objects.node(arena.names[0], zones=1024, amounts=amounts, free=100)
    path = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{arena.names[0]}"
    async with arena.honest(webhook, scorer, most=MOST_MIB):
        for at in range(4):
            topology["attributes"][1]["value"] = ("container", "pod")[at % 2]
            output = orjson.dumps(topology)
            answer = await once(api.door, "PATCH", path, output, "application/merge-patch+json")
            assert answer.well
            await asyncio.sleep(1)


async def test_thousand_binds_delay_neither_health_nor_reviews(arena: Arena) -> None:
    arena.put(*objects.node("target", zones=8, amounts={"cpu": 64, "memory": 2**38}, free=100))
    api = await arena.api_server()
    scorer = await arena.scorer(api=api)
    pods = [objects.pod(f"bound-{at}", {"cpu": "1", "memory": "64Mi"}) for at in range(500)]
    async with http_calls.connection(api.door) as made:
        stored = [
            orjson.loads((await made.call("POST", objects.PODS, orjson.dumps(each))).body) for each in pods
        ]
    await asyncio.sleep(0.5)
    bodies = [objects.binding(each, "target") for each in stored]
    async with arena.honest(scorer, most=MOST_MIB):
        await attackers.send(scorer.door, "/bind", bodies * 2, at_once=1000, source=STRANGER)


async def test_invented_namespaces_cost_no_call_each(arena: Arena) -> None:
    api = await arena.api_server()
    webhook = await arena.webhook(api=api)
    fast = objects.pod("fast", policy=None)
    # A level applies before a watch delivers it: the API server is called for a name that is not known.
    strict = objects.namespace("strict", enforce=objects.SINGLE)
    assert (await once(api.door, "POST", "/api/v1/namespaces", orjson.dumps(strict))).well
    answer = await once(webhook.door, "POST", "/validate", objects.review(fast, namespace="strict"))
    assert not orjson.loads(answer.body)["response"]["allowed"]

    invented = (objects.review(fast, namespace=f"invented-{number}") for number in range(300))
    async with arena.honest(webhook, most=16):
        statuses = await attackers.send(webhook.door, "/validate", invented, at_once=20)
    assert {*statuses} == {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
