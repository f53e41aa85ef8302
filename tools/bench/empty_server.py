"""
Serve an empty extender on the scorer's own server, to separate the cost of the server from that of the rules.

It reads and answers calls as the scorer does, with node names in both directions, and binds with the same
client. Compared with the empty extender in Go, it shows the cost of Python and its HTTP. Compared with the
scorer, it shows the rest.

    python -m tools.bench.empty_server --port 8080 --kubeconfig scorer.yaml
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from aiohttp import web

from numalign.kube import bindings
from numalign.kube.client import Api, connected
from numalign.kube.connection import Connection
from numalign.runtime import logs, metrics, server
from numalign.runtime.calls import body
from numalign.runtime.logs import Log
from numalign.runtime.server import Stop
from numalign.runtime.server_settings import ServerSettings
from numalign.scheduling.node_answers import Filtered
from scorer import extender_protocol
from scorer.extender_protocol import Calls

JSON = "application/json"


async def _filter(request: web.Request, calls: Calls) -> web.Response:
    asked = calls.candidates(body(request))
    every = Filtered(asked.names, {}, {})
    return web.Response(body=extender_protocol.answer_filter(asked, every), content_type=JSON)


async def _prioritize(request: web.Request, calls: Calls) -> web.Response:
    names = calls.candidates(body(request)).names
    return web.Response(body=extender_protocol.answer_scores(names, [0] * len(names)), content_type=JSON)


async def _bind(request: web.Request, api: Api) -> web.Response:
    call = extender_protocol.read_binding(body(request))
    await bindings.bind(
        api, namespace=call.namespace, name=call.name, uid=call.uid, node=call.node, annotations={}
    )
    return web.Response(body=extender_protocol.answer_binding(), content_type=JSON)


async def _serve(stop: Stop, *, kubeconfig: Path, settings: ServerSettings, log: Log) -> int:
    async with connected(Connection(str(kubeconfig))) as api:
        calls = Calls()
        app = server.application(
            [
                web.post("/filter", partial(_filter, calls=calls)),
                web.post("/prioritize", partial(_prioritize, calls=calls)),
                web.post("/bind", partial(_bind, api=api)),
            ],
            log=log,
            registry=metrics.registry(program="empty-server"),
            checks={},
            limits=settings.limits,
        )
        return await server.serve(app, settings, stop=stop)


def main() -> int:
    """Serve until stopped; return the exit code of the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.empty_server", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, required=True, help="port for calls, on 127.0.0.1")
    parser.add_argument("--metrics-port", type=int, default=0, help="port for metrics, on 127.0.0.1")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="file for access to the API server")
    chosen = parser.parse_args()
    settings = ServerSettings(
        bind="127.0.0.1",
        port=chosen.port,
        metrics_port=chosen.metrics_port,
        insecure_http=True,
        drain_seconds=0,
    )
    log = logs.to(sys.stderr, level=settings.log_level, form=settings.log_format)
    return server.run(partial(_serve, kubeconfig=chosen.kubeconfig, settings=settings, log=log), log=log)


if __name__ == "__main__":
    sys.exit(main())
