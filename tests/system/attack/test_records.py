"""Records of placements that tenants write on their own pods."""

import asyncio
import time
from datetime import UTC, datetime

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
KEYS = [
    # whose record it is       key
    ("what was observed",      "numalign.io/placement-observed"),
    ("what was recorded",      "numalign.io/placement"),
    ("what KAI observed",      "kai.scheduler/numa-placement-observed"),
    ("what KAI predicted",     "kai.scheduler/numa-placement-predicted"),
]  # fmt: skip
PLACEMENT = "numalign.io/placement"
HELD: dict[str, object] = {"cpu": "32", "memory": "1Gi"}


def claiming(made: Json, key: str, *zones: str, amount: object = HELD) -> Json:
    """A pod whose owner wrote that it holds so much of each of these zones."""
    if key.startswith("kai"):
        record = [{"zone": zone, "amount": amount} for zone in zones]
    else:
        record = [{"zones": [zone], "amount": amount} for zone in zones]
    metadata = made["metadata"]
    written = {**metadata["annotations"], key: orjson.dumps(record).decode()}
    return {**made, "metadata": {**metadata, "annotations": written}}


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


@pytest.mark.parametrize("key", table(KEYS))
async def test_false_large_claim_closes_no_node(arena: Arena, key: str) -> None:
    arena.put(*objects.node("target", zones=2, amounts=CPUS, free=100))
    tiny = objects.pod("tiny", {"cpu": "100m", "memory": "1Gi"}, policy=None)
    arena.put(objects.on("target", claiming(tiny, key, "node-0", "node-1")))
    scorer = await arena.scorer(api=await arena.api_server())
    assert await fit(scorer, objects.pod("honest", WHOLE), "target")


LARGE = [
    # what two pods that fill a node claim    key          zones        amount
    ("observed to hold nothing",              KEYS[0][1],  (),          HELD),
    ("recorded to hold nothing",              KEYS[1][1],  (),          HELD),
    ("to hold little",                        KEYS[0][1],  ("node-0",), {"cpu": "1"}),
    ("to hold the same zone, both of them",   KEYS[0][1],  ("node-0",), HELD),
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


# ---- machines whose clocks are wrong, in a cluster of honest ones


MOST = {"cpu": "20", "memory": "1Gi"}
HOUR = 3600.0


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ran(place: str, name: str, *, created: float, bound: float | None, started: float) -> Json:
    """A pod that runs on a node, with times so many seconds from now."""
    made = objects.on(place, objects.pod(f"{name}-on-{place}", MOST))
    made["metadata"]["creationTimestamp"] = stamp(created)
    made["status"]["startTime"] = stamp(started)
    if bound is not None:
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(bound)}
        made["status"]["conditions"] = [scheduled]
    return made


NODES = [
    # what is wrong                                     free  created  bound  started  whether a pod fits
    ("nothing",                                         100,       -8,    -6,      -5,  False),
    ("the clock of the node is 2 min behind",           100,       -8,  None,    -125,  False),
    ("the clock of the node is an hour behind",         100,       -8,    -6,   -3605,  False),
    ("it is 2 min behind, and the pods have waited",    100,    -HOUR,  None,    -125,  False),
    ("it is an hour behind, and the pods have waited",  100,    -HOUR,    -6,   -3605,  False),
    ("it is an hour ahead",                             100,       -8,    -6,    3595,  False),
    ("that of the API server is 2 min behind",          100,     -128,  -126,    -125,  False),
    ("nothing, and the topology has them for long",      75,    -HOUR, -3590,   -3590,  True),
]  # fmt: skip


async def test_wrong_clocks_offer_no_zone_of_new_pods(arena: Arena) -> None:
    """Of 64 CPUs two pods hold 40: 12 are left in each zone, and a topology that knows neither has 32."""
    for at, (_, free, created, bound, started, _) in enumerate(NODES):
        place = f"node-{at}"
        arena.put(*objects.node(place, zones=2, amounts=CPUS, free=free))
        arena.put(*(ran(place, name, created=created, bound=bound, started=started) for name in "ab"))
    scorer = await arena.scorer()

    fits = {
        why: await fit(scorer, objects.pod("want", MOST), f"node-{at}") for at, (why, *_) in enumerate(NODES)
    }
    assert fits == {why: fitting for why, *_, fitting in NODES}
