"""Pods of thousands of resources, in reviews, calls of schedulers and watches."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from numalign.kube.lease import RENEW_DEADLINE_SECONDS
from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tests.system.attack.objects import Json
from tools.clusters import http_calls
from tools.clusters.http_calls import once
from tools.clusters.programs import NAMESPACE, ApiServer

MERGE = "application/merge-patch+json"
LEASES = 2
MOST_MIB = 64
ROUNDS = 3
AT_ONCE = 4

NAMES = (5_000, 25_000, 51_200)
"""Resources of a pod; the most are all that an API server stores."""


async def test_pods_of_many_resources_keep_no_review_waiting(arena: Arena) -> None:
    webhook = await arena.webhook()
    body = objects.review(objects.of_many_names("many", NAMES[-1]))
    async with arena.honest(webhook, most=MOST_MIB):
        for path in ("/mutate", "/validate"):
            await send(webhook.door, path, [body] * ROUNDS, at_once=AT_ONCE)


async def test_pods_of_many_resources_keep_no_scheduler_waiting(arena: Arena) -> None:
    scorer = await arena.scorer()
    pods = (objects.of_many_names(f"many-{at}", count) for at, count in enumerate(NAMES))
    bodies = [objects.filtering(made, arena.names) for made in pods]
    async with arena.honest(scorer, most=MOST_MIB):
        for path in ("/filter", "/prioritize"):
            await send(scorer.door, path, bodies * ROUNDS, at_once=AT_ONCE)


async def test_changing_pods_of_many_resources_keep_the_lease(arena: Arena) -> None:
    pods = [
        objects.on(arena.names[at], objects.of_many_names(f"many-{at}", count))
        for at, count in enumerate(NAMES)
    ]
    api = await arena.api_server()
    webhook, scorer = await arena.webhook(api=api), await arena.scorer(api=api)
    controller = await arena.controller(api)
    oldest = 0.0

    async def look() -> dict[str, tuple[str, int]]:
        """By lease, its holder and how often it has changed hands; how old the oldest renewal is, is kept."""
        nonlocal oldest
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        found = orjson.loads((await once(api.door, "GET", path)).body)["items"]
        for each in found:
            age = datetime.now(UTC) - datetime.fromisoformat(each["spec"]["renewTime"])
            oldest = max(oldest, age.total_seconds())
        return {
            each["metadata"]["name"]: (each["spec"]["holderIdentity"], each["spec"]["leaseTransitions"])
            for each in found
        }

    async with arena.honest(webhook, scorer, controller, most=MOST_MIB):
        before = await look()
        for each in pods:
            assert (await http_calls.once(api.door, "POST", objects.PODS, orjson.dumps(each))).well
        changes = asyncio.create_task(changing(api, pods, seconds=6))
        while not changes.done():
            await look()
            await asyncio.sleep(0.25)
        await changes
        after = await look()
    assert before == after
    assert len(after) == LEASES
    assert oldest < RENEW_DEADLINE_SECONDS / 2


async def changing(api: ApiServer, pods: Sequence[Json], *, seconds: float) -> None:
    until = time.monotonic() + seconds
    async with http_calls.connection(api.door) as made:
        while time.monotonic() < until:
            for each in pods:
                output = {"status": {**each["status"], "message": str(time.monotonic())}}
                answer = await made.call("PATCH", objects.path(each), orjson.dumps(output), MERGE)
                assert answer.well
            await asyncio.sleep(0.5)


# ---- a node that has more zones than most, and pods that have more containers


AMOUNTS = {"cpu": 64, "memory": 512 * 2**30, "nvidia.com/gpu": 8}


async def test_200_containers_on_16_zones_delay_no_scheduler(arena: Arena) -> None:
    """A hundred containers, and a hundred that run before them."""
    arena.put(*objects.node("sixteen", zones=16, policy="restricted", amounts=AMOUNTS, free=50))
    scorer = await arena.scorer()
    each = [{"cpu": str(1 + at % 7), "memory": "1Gi", "nvidia.com/gpu": "1"} for at in range(100)]
    made = objects.pod("crowded", *each, policy="restricted")
    made["spec"]["initContainers"] = [
        {**one, "name": f"first-{one['name']}"} for one in made["spec"]["containers"]
    ]
    asked = objects.filtering(made, arena.names)
    async with arena.honest(scorer, most=96):
        for path in ("/filter", "/prioritize"):
            await send(scorer.door, path, [asked] * 2, at_once=2)
