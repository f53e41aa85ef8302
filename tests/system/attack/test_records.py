"""Records of placements that tenants write on their own pods."""

import asyncio

import orjson
import pytest

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tests.worlds.notation import table
from tools.clusters import http_calls
from tools.clusters.programs import ApiServer, Running

CPUS = {"cpu": 32, "memory": 64 * 2**30}
WHOLE = {"cpu": "32", "memory": "1Gi"}
HALF = {"cpu": "16", "memory": "1Gi"}
PLACEMENT, OBSERVED = "numalign.io/placement", "numalign.io/placement-observed"
KEYS = (
    *(PLACEMENT, OBSERVED),
    *("kai.scheduler/numa-placement-observed", "kai.scheduler/numa-placement-predicted"),
)
HELD: dict[str, object] = {"cpu": "32", "memory": "1Gi"}


def claiming(made: Json, key: str, *zones: str, amount: object = HELD) -> Json:
    """A pod whose owner wrote that it holds so much of each of these zones."""
    kai = key.startswith("kai")
    record = [{"zone": zone} if kai else {"zones": [zone]} for zone in zones]
    text = orjson.dumps([{**each, "amount": amount} for each in record]).decode()
    metadata = made["metadata"]
    return {**made, "metadata": {**metadata, "annotations": {**metadata["annotations"], key: text}}}


async def fit(scorer: Running, made: Json, place: str) -> bool:
    answer = await http_calls.once(scorer.door, "POST", "/filter", objects.filtering(made, [place]))
    return bool(orjson.loads(answer.body)["NodeNames"] == [place])


async def bound(scorer: Running, api: ApiServer, made: Json, place: str) -> tuple[str, Json]:
    """Why a pod could not be bound, empty if it was, and its annotations afterwards."""
    stored = orjson.loads((await http_calls.once(api.door, "POST", objects.PODS, orjson.dumps(made))).body)
    await asyncio.sleep(0.3)
    await fit(scorer, stored, place)
    answer = await http_calls.once(scorer.door, "POST", "/bind", objects.binding(stored, place))
    after = orjson.loads((await http_calls.once(api.door, "GET", objects.path(made))).body)
    return orjson.loads(answer.body)["Error"], after["metadata"]["annotations"]


async def test_false_large_claim_closes_no_node(arena: Arena) -> None:
    for at, key in enumerate(KEYS):
        tiny = objects.pod(f"tiny-{at}", {"cpu": "100m", "memory": "1Gi"}, policy=None)
        arena.put(*objects.node(f"target-{at}", zones=2, amounts=CPUS, free=100))
        arena.put(objects.on(f"target-{at}", claiming(tiny, key, "node-0", "node-1")))
    scorer = await arena.scorer(api=await arena.api_server())
    fits = [await fit(scorer, objects.pod("honest", WHOLE), f"target-{at}") for at in range(len(KEYS))]
    assert fits == [True] * len(KEYS)


LARGE = [
    # what two pods that fill a node claim    key        zones        amount
    ("observed to hold nothing",              OBSERVED,  (),          HELD),
    ("recorded to hold nothing",              PLACEMENT, (),          HELD),
    ("to hold little",                        OBSERVED,  ("node-0",), {"cpu": "1"}),
    ("to hold the same zone, both of them",   OBSERVED,  ("node-0",), HELD),
]  # fmt: skip


@pytest.mark.parametrize(("key", "zones", "amount"), table(LARGE))
async def test_false_small_claim_opens_no_full_node(
    arena: Arena, key: str, zones: tuple[str, ...], amount: object
) -> None:
    arena.put(*objects.node("target", zones=2, amounts=CPUS, free=0))
    large = (objects.pod(f"large-{at}", WHOLE) for at in range(2))
    arena.put(*(objects.on("target", claiming(each, key, *zones, amount=amount)) for each in large))
    api = await arena.api_server()
    scorer = await arena.scorer(api=api)
    error, annotations = await bound(scorer, api, objects.pod("honest", HALF), "target")
    assert error or PLACEMENT not in annotations
