"""The page of metrics, where tenants choose what is counted."""

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tools.clusters.programs import samples

UNKNOWN = 2_000
LONGEST_NAME = 5_000
AUDITED = {"defaults": [{"audit": "single-numa-node"}]}

MOST_MIB = 64
MOST_SERIES = 100
MOST_BYTES = 100_000


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
