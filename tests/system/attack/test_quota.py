"""A namespace whose pods come all at once, of which only some may have CPUs of their own."""

import asyncio
import sys
from collections import Counter
from itertools import cycle

import orjson

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.objects import Json
from tools.clusters.http_calls import once
from tools.clusters.programs import ApiServer, Running

LIMIT, PODS = 20, 50
ONE = {"cpu": "1", "memory": "1Gi"}
GIB = 2**30


async def admitted(webhook: Running, made: Json) -> bool:
    answer = await once(webhook.door, "POST", "/validate", objects.review(made))
    return bool(orjson.loads(answer.body)["response"]["allowed"])


async def created(api: ApiServer, made: Json) -> Json:
    answer = await once(api.door, "POST", objects.PODS, orjson.dumps(made))
    assert answer.status == 201
    stored: Json = orjson.loads(answer.body)
    return stored


async def error(scorer: Running, made: Json, place: str) -> str:
    answer = await once(scorer.door, "POST", "/bind", objects.binding(made, place))
    return str(orjson.loads(answer.body)["Error"])


async def bound(api: ApiServer) -> int:
    listed = orjson.loads((await once(api.door, "GET", objects.PODS)).body)["items"]
    return sum(bool(each["spec"].get("nodeName")) for each in listed)


async def test_fifty_pods_exceed_no_quota_once_bound(arena: Arena) -> None:
    places = [f"n{at}" for at in range(5)]
    amounts = {"cpu": 16, "memory": 64 * GIB}
    nodes = [each for place in places for each in objects.node(place, zones=2, amounts=amounts, free=100)]
    arena.objects[:] = [*nodes, objects.namespace(objects.TEAM, **{"exclusive-cpus": str(LIMIT)})]
    api = await arena.api_server()
    policy = ("--policy", str(arena.here.file("policy.yaml", {"overQuota": "deny"})))
    first = await arena.webhook(*policy, api=api)
    second, scorer = await asyncio.gather(arena.webhook(*policy, api=api), arena.scorer(api=api))
    pods = [objects.pod(f"pod-{at}", ONE) for at in range(PODS)]

    allowed = await asyncio.gather(*(admitted((first, second)[at % 2], each) for at, each in enumerate(pods)))
    # All of them come nevertheless, as while no webhook answers.
    stored = await asyncio.gather(*(created(api, each) for each in pods))
    waiting, errors = [*zip(stored, cycle(places), strict=False)], [""]
    # As a scheduler does, as long as only a node is the reason: no kubelet admits any pod here.
    while {"exclusive CPUs" in why for why in errors} != {True}:
        errors = await asyncio.gather(*(error(scorer, *each) for each in waiting))
        waiting = [each for each, why in zip(waiting, errors, strict=True) if why]
        errors = [*filter(None, errors)]
    have_nodes = await bound(api)
    filtered = await once(scorer.door, "POST", "/filter", objects.filtering(waiting[0][0], places))

    figures = (
        f"{sum(allowed)} admitted by two replicas, {have_nodes} bound, of {PODS} with a limit of {LIMIT}"
    )
    sys.stdout.write(f"\n  {figures}\n")
    why = f"{LIMIT} of {LIMIT} exclusive CPUs of namespace team are in use, and the pod requests 1"
    assert LIMIT <= sum(allowed) <= 2 * LIMIT
    assert have_nodes == LIMIT
    assert Counter(errors) == {f"numalign: {why}": PODS - LIMIT}
    assert orjson.loads(filtered.body)["FailedAndUnresolvableNodes"] == dict.fromkeys(
        places, f"node(s) beyond the quota: {why} (numalign)"
    )
