"""Zones that are held for pods that never run: of tenants, and of callers that make pods up."""

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import chain

import orjson

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tools.clusters import http_calls
from tools.clusters.processes import until
from tools.clusters.programs import ApiServer

CPUS = {"cpu": 32, "memory": 64 * 2**30}
WHOLE, HALF = {"cpu": "32", "memory": "1Gi"}, {"cpu": "16", "memory": "1Gi"}
SMALLER = {"cpu": 16, "memory": 64 * 2**30}
GATED, SQUATTERS, PLAIN = objects.TEAM, "squatters", "plain"
WAITS = ("--gate-patience-seconds=0", "--pin-patience-seconds=4")

WITHIN = 15
"""Seconds within which an honest pod gets a zone; twenty squatters in turn would keep it for forty."""


def nodes() -> Iterator[Json]:
    """Two nodes of a zone each for gated pods, and one that is too small for them."""
    for name, amounts in (("n0", CPUS), ("n1", CPUS), ("target", SMALLER)):
        yield from objects.node(name, zones=1, amounts=amounts, free=100)


def gated(name: str, namespace: str, **spec: object) -> Json:
    made = objects.pod(name, WHOLE)
    made["metadata"]["namespace"] = namespace
    made["spec"] |= {"schedulingGates": [{"name": "numalign.io/placement"}], **spec}
    return {**made, "status": {"phase": "Pending"}}


async def fate(api: ApiServer, made: Json) -> str:
    """What became of a gated pod, empty as long as it waits."""
    place = f"/api/v1/namespaces/{made['metadata']['namespace']}/pods/{made['metadata']['name']}"
    spec = orjson.loads((await http_calls.once(api.door, "GET", place)).body)["spec"]
    if spec.get("schedulingGates"):
        return ""
    return "pinned" if (spec.get("affinity") or {}).get("nodeAffinity") else "let go"


async def test_no_zone_is_held_for_unbound_or_invented_pods(arena: Arena) -> None:
    spaces = (objects.namespace(name, gate="enabled") for name in (GATED, SQUATTERS))
    squatters = [gated(f"s{at}", SQUATTERS, schedulerName="nobody") for at in range(20)]
    plain = [gated(f"p{at}", PLAIN, schedulerName="nobody") for at in range(4)]
    # These are all that there is.
    arena.objects[:] = [*nodes(), *chain(spaces, plain, squatters), objects.namespace(PLAIN)]
    api = await arena.api_server()
    controller, scorer = await asyncio.gather(
        arena.controller(api, "--gates", *WAITS), arena.scorer("--reserve-at=prioritize", api=api)
    )

    async def squatted() -> bool:
        return [await fate(api, each) for each in squatters].count("pinned") == 2

    await until(squatted, what="squatters had both zones", child=controller.child)
    honest = gated("honest", GATED)
    await http_calls.once(api.door, "POST", objects.PODS, orjson.dumps(honest))
    # Every call that reserves zones is made, each for a pod that the API server has never seen.
    forged = [objects.pod(f"forged-{at}", HALF) for at in range(3)]
    named = {key: forged[2]["metadata"][key.lower()] for key in ("UID", "Name", "Namespace")}
    task = {"task": {**named, "NodeName": "target", "Pod": forged[2]}}
    bodies = {
        "/filter": objects.filtering(forged[0], ["target"]),
        "/prioritize": objects.filtering(forged[1], ["target"]),
        "/volcano/allocate": orjson.dumps(task),
    }
    calls = (http_calls.once(scorer.door, "POST", path, body) for path, body in bodies.items())
    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    small = objects.filtering(objects.pod("small", HALF), ["target"])
    answer = await http_calls.once(scorer.door, "POST", "/filter", small)
    assert orjson.loads(answer.body)["NodeNames"] == ["target"]

    waited = partial(fate, api, honest)
    assert (
        await until(waited, what="it had a zone", child=controller.child, seconds=WITHIN),
        "pinned" in [await fate(api, each) for each in plain],
    ) == ("pinned", False)
