"""
Health, readiness, metrics and the debug state, on a port of their own.

Callers and monitors of a program differ: an API server calls with TLS, a kubelet probes and Prometheus reads
without. So each has a port, and a network policy can distinguish them. No request here is rejected under
load, because a failed probe would remove the whole pod and load the others.
"""

from collections.abc import Mapping

import orjson
from aiohttp import web

from numalign.runtime.server_state import SERVER_STATE, ServerState

HEALTH = "/healthz"
READINESS = "/readyz"
METRICS = "/metrics"
STATE = "/debug/state"


def routes(state: ServerState) -> list[web.RouteDef]:
    """Return the routes for probes and scrapers; `/debug/state` only if the program provides one."""
    debug = [web.get(STATE, _state)] if state.debug else []
    return [web.get(HEALTH, _healthz), web.get(READINESS, _readyz), web.get(METRICS, _metrics), *debug]


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    waiting = request.app[SERVER_STATE].waiting_for()
    return web.json_response({"ready": not waiting, "waiting_for": waiting}, status=503 if waiting else 200)


async def _metrics(request: web.Request) -> web.Response:
    page, content_type = await request.app[SERVER_STATE].metrics.written(request.headers.get("Accept", ""))
    return web.Response(body=page, headers={"Content-Type": content_type})


async def _state(request: web.Request) -> web.Response:
    state = request.app[SERVER_STATE]
    server = {
        "draining": state.draining,
        "waiting_for": state.waiting_for(),
        "in_flight": state.load.calls.total,
        "bytes_in_flight": state.load.bytes.total,
        "connections": len(state.connections),
    }
    shown = {**(state.debug() if state.debug else {}), "server": server}
    body = orjson.dumps(shown, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, content_type="application/json")


def _plain(value: object) -> object:
    """Return a value that JSON does not support as one that it does."""
    match value:
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return list(value)
    return str(value)
