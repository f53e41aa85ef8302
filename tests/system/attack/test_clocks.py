"""
Machines whose clocks are wrong, in a cluster of honest ones.

Programs start on a cluster in which all is written already, so they have only the times that others wrote.
"""

import time
from datetime import UTC, datetime

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tests.system.attack.test_records import fit

CPUS = {"cpu": 32, "memory": 64 * 2**30}
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
