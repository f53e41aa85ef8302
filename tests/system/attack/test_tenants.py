"""What one tenant's pods can take of memory as long as they exist."""

import orjson

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tools.clusters import http_calls
from tools.clusters.programs import MIB, soon

PODS, NAMES, CONTAINERS = 150, 2_000, 16
"""Pods of so many resources, that wait as long as their owner likes; each took hundreds of KB."""

MOST_MIB = 50


def waiting(number: int) -> Json:
    """A pod that nobody places, of thousands of resources that no other pod names."""
    each = NAMES // CONTAINERS
    names = [[f"x.io/{number}-{at}-{name}" for name in range(each)] for at in range(CONTAINERS)]
    made = objects.pod(f"waits-{number}", *(dict.fromkeys(some, "1") for some in names))
    return {**made, "status": {"phase": "Pending"}}


async def test_distinct_pods_take_bounded_memory(arena: Arena) -> None:
    api = await arena.api_server()
    webhook, scorer = await arena.webhook(api=api), await arena.scorer(api=api)
    written = [orjson.dumps(waiting(at)) for at in range(PODS)]
    before = [each.memory().now for each in (webhook, scorer)]
    async with http_calls.connection(api.door) as made:
        for body in written:
            assert (await made.call("POST", objects.PODS, body)).well

    async def all_seen() -> bool:
        return await webhook.metric("numalign_pods_too_large") == PODS

    await soon(all_seen, what="all pods", child=webhook.child)
    after = [each.memory().most for each in (webhook, scorer)]
    grown = [(now - then) / MIB for now, then in zip(after, before, strict=True)]
    assert max(grown) < MOST_MIB
