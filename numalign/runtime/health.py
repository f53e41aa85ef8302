"""
What a server tells of itself, on a port of its own: health, readiness, metrics and, if it may, its state.

Who calls a program is not who watches it: an API server calls with TLS, a kubelet probes and Prometheus
reads without. So each has a port, and a rule of the network can tell them apart. Nothing here is turned away
under load, for a probe that fails would take the whole pod out and load the others.
"""

from collections.abc import Mapping

import orjson
from aiohttp import web

from numalign.runtime import metrics
from numalign.runtime.life import LIFE, Life

HEALTH = "/healthz"
READINESS = "/readyz"
METRICS = "/metrics"
STATE = "/debug/state"


def routes(life: Life) -> list[web.RouteDef]:
    """What is told of a server; its state only if it has one to tell."""
    state = [web.get(STATE, _state)] if life.state else []
    return [web.get(HEALTH, _healthz), web.get(READINESS, _readyz), web.get(METRICS, _metrics), *state]


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    waiting = request.app[LIFE].waiting_for()
    answer = {"ready": not waiting, "waiting_for": waiting}
    return web.json_response(answer, status=503 if waiting else 200)


async def _metrics(request: web.Request) -> web.Response:
    return metrics.exposition(request, registry=request.app[LIFE].registry)


async def _state(request: web.Request) -> web.Response:
    life = request.app[LIFE]
    server = {
        "draining": life.draining,
        "waiting_for": life.waiting_for(),
        "in_flight": life.load.calls.total,
        "bytes_in_flight": life.load.bytes.total,
        "connections": len(life.connections),
    }
    known = life.state() if life.state else {}
    said = orjson.dumps({**known, "server": server}, default=_told, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=said, content_type="application/json")


def _told(value: object) -> object:
    """What JSON has no word for, in words that it has."""
    match value:
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return list(value)
    return str(value)
