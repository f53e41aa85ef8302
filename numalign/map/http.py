"""
The map over HTTP: pages for browsers, the same content as JSON for programs, and a stream of changes.

Every response is built for the authorized user who requests it. Pages are rendered in a thread or in chunks,
and what-if questions are computed in steps: in the controller, requests for the map must not delay decisions
about pods.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from numalign.map import answers, events, fleet_query, forms, json_forms, pasted
from numalign.map.access import (
    AccessRefused,
    MapAccess,
    NotPermitted,
    SignInRequired,
    Unavailable,
    Visitor,
    as_seen,
)
from numalign.map.events import Stream, Streams
from numalign.map.pages import Renderer, Viewer, WhatIfForm
from numalign.map.signing_in import SigningIn, check_origin, has_cookie, shown_token
from numalign.map.state import MapState
from numalign.map.turnstile import Turnstile
from numalign.map.views import FleetQuery, Visible, WhatIfResult
from numalign.map.what_if import MOST_REPLICAS, WhatIf
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import calls
from numalign.runtime.in_flight import Limits, Timeouts
from numalign.runtime.logs import Log

LIMITS = Limits(calls=512, bytes=16 * 1024**2, body=1024**2, connections=1024)
"""The limits of the port of the map; an encoded form is up to three times as long as its content."""

TIMEOUTS = Timeouts(body=20)
"""Browsers have slower connections than API servers."""

MOST_TILES = 200

LOOK_SECONDS, HEARTBEAT_SECONDS = 1.0, 15.0
"""Intervals in seconds at which a stream checks its viewer's access and connection, and sends a heartbeat."""

_EVENTS = "/events"


class MapService:
    """The map of one cluster, for visitors whom `access` admits.

    `waiting_for` returns what the map still waits for; None once it is ready.
    """

    def __init__(
        self,
        map_state: MapState,
        access: MapAccess,
        streams: Streams,
        *,
        log: Log,
        waiting_for: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._map_state = map_state
        self._access = access
        self._streams = streams
        self._waiting_for = waiting_for
        self._log = log
        self._renderer = Renderer()
        self._signing_in = SigningIn(access, self._renderer, streams, log=log)
        self._turnstile = Turnstile()
        self._questions = WhatIf(map_state)

    def install(self, app: web.Application) -> None:
        """Add the routes and the middleware of the map to an application."""
        app.middlewares.append(self._answered)
        app.on_response_prepare.append(answers.secure)
        app.add_routes(
            [
                web.get("/", self._shown(self._fleet)),
                web.get("/tiles", self._shown(self._tiles)),
                web.get("/nodes/{name}", self._shown(self._node)),
                web.get("/pods/{namespace}/{name}", self._shown(self._pod)),
                web.get("/what-if", self._shown(self._what_if)),
                web.post("/what-if", self._shown(self._what_if)),
                web.get(_EVENTS, self._events, allow_head=False),
                web.get("/static/{name}", answers.static),
                web.get("/api/fleet", self._shown(self._fleet)),
                web.get("/api/nodes/{name}", self._shown(self._node)),
                web.get("/api/pods/{namespace}/{name}", self._shown(self._pod)),
                web.post("/api/what-if", self._shown(self._what_if)),
                *self._signing_in.routes(),
            ]
        )

    async def follow(self) -> None:
        """Send changes to open pages; never returns, and ends all streams when it is cancelled."""

        async def look() -> int:
            # After a refresh, no page has to wait for one.
            await self._map_state.refresh()
            return self._map_state.revision

        await self._streams.follow(look, self._map_state.changed_since, log=self._log)

    # Access.

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return the response of a handler; errors become a page, or JSON for programs."""
        try:
            self._access.check_host(request)
            check_origin(request)
            return await handler(request)
        except AccessRefused as refusal:
            return self._refused(request, refusal)
        except BadInput as error:
            return self._error(request, HTTPStatus.BAD_REQUEST, [*map(str, error.mistakes)], {})
        except web.HTTPException as error:
            allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            text = error.text or ""
            # The default text of aiohttp only repeats the status.
            if text.startswith(f"{error.status}: "):
                text = _SENTENCES.get(error.status, error.reason)
            return self._error(request, HTTPStatus(error.status), [text], allow)

    def _refused(self, request: web.Request, refusal: AccessRefused) -> web.Response:
        headers: dict[str, str] = {}
        if refusal.status is HTTPStatus.UNAUTHORIZED:
            headers = {"WWW-Authenticate": "Bearer"}
        elif refusal.status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers = {"Retry-After": "1"}
        could_sign_in = self._access.signs_in and isinstance(refusal, SignInRequired | NotPermitted)
        if _is_program(request) or not could_sign_in:
            return self._error(request, refusal.status, [str(refusal)], headers)
        message = str(refusal) if shown_token(request) else ""
        next_path = request.path_qs if request.method == "GET" else "/"
        return answers.page(self._renderer.login(message, next_path=next_path), refusal.status, headers)

    def _error(
        self, request: web.Request, status: HTTPStatus, mistakes: list[str], headers: Mapping[str, str]
    ) -> web.Response:
        if _is_program(request):
            return web.json_response({"error": "\n".join(mistakes)}, status=status, headers=headers)
        return answers.page(self._renderer.error(status, mistakes, Viewer(live=False)), status, headers)

    def _shown(
        self, handler: Callable[[web.Request, Visitor], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return a handler that admits the visitor and checks that the map is ready first."""

        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = await self._access.visitor(shown_token(request))
            if reason := self._waiting_for():
                raise Unavailable(f"The map is not ready yet: it is waiting for {reason}.")
            with self._turnstile.call(visitor.key):
                # The call counts until its response is sent.
                return await answers.send(request, await handler(request, visitor))

        return handle

    # Views, as pages or as JSON for programs.

    async def _fleet(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        query = _fleet_query(request)
        fleet = await self._map_state.fleet(query)
        if _is_program(request):
            return await answers.json(partial(json_forms.fleet_json, fleet))
        chunks = self._renderer.fleet(fleet, query, _viewer(request, visitor))
        return await answers.send(request, answers.stream_of_html(), chunks)

    async def _tiles(self, request: web.Request, _visitor: Visitor) -> web.StreamResponse:
        names = frozenset(request.query.getall("name", []))
        if len(names) > MOST_TILES:
            many = f"{len(names):,} nodes are requested: at most {MOST_TILES} are allowed"
            raise BadInput([Mistake("name", many)])
        query = _fleet_query(request)
        fleet = await self._map_state.fleet(query)
        return await answers.drawn(partial(self._renderer.tiles, fleet, query, names))

    async def _node(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        name = request.match_info["name"]
        view = await as_seen(visitor, partial(self._map_state.node, name))
        if view is None:
            unknown = name in self._map_state.unknown
            reason = f"Node {name} publishes no topology." if unknown else f"There is no node {name}."
            raise web.HTTPNotFound(text=reason)
        if _is_program(request):
            return await answers.json(partial(json_forms.node_json, view))
        return await answers.drawn(partial(self._renderer.node, view, _viewer(request, visitor)))

    async def _pod(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        view = await as_seen(visitor, partial(self._map_state.pod, namespace, name))
        if view is None:
            # Without permission to list pods there, a visitor must not learn whether it exists.
            raise web.HTTPNotFound(
                text=f"There is no pod {namespace}/{name}, or you may not list pods there."
            )
        if _is_program(request):
            return await answers.json(partial(json_forms.pod_json, view))
        return await answers.drawn(partial(self._renderer.pod, view, _viewer(request, visitor)))

    async def _what_if(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        if _is_program(request):
            replicas = request.query.get("replicas", "")
            result = await self._worked_out(calls.body(request), replicas, visitor)
            return await answers.json(partial(json_forms.what_if_json, result))
        viewer, response = _viewer(request, visitor), answers.stream_of_html()
        if request.method != "POST":
            chunks = self._renderer.what_if(WhatIfForm(), None, {}, viewer)
            return await answers.send(request, response, chunks)
        fields = await forms.fields(calls.body(request), request.headers.get("Content-Type", ""))
        manifest = fields.get("file") or fields.get("manifest", b"")
        form = WhatIfForm(manifest.decode(errors="replace"), forms.text(fields, "replicas"))
        try:
            result = await self._worked_out(manifest, form.replicas, visitor)
        except BadInput as error:
            form = WhatIfForm(form.manifest, form.replicas, tuple(map(str, error.mistakes)))
            too_long = len(manifest) > pasted.MOST_BYTES
            response.set_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_long else HTTPStatus.BAD_REQUEST)
            return await answers.send(request, response, self._renderer.what_if(form, None, {}, viewer))
        fleet = await self._map_state.fleet(FleetQuery())
        tiles = {tile.name: tile for group in fleet.groups for tile in group.tiles}
        return await answers.send(request, response, self._renderer.what_if(form, result, tiles, viewer))

    async def _worked_out(self, text: bytes, replicas: str, visitor: Visitor) -> WhatIfResult:
        """Return the answer to a what-if question; raise `BadInput` or `Unavailable`.

        Without a requested number of replicas, it is that of the object.
        """
        written = replicas.strip()
        count = (_number(written) or 0) if written else None
        if count is not None and not 1 <= count <= MOST_REPLICAS:
            raise BadInput([Mistake("replicas", f"must be a whole number from 1 to {MOST_REPLICAS:,}")])

        async def ask(visible: Visible) -> WhatIfResult:
            return await self._questions.ask(text, visible=visible, replicas=count, user=visitor.name)

        return await self._turnstile.answer(visitor.key, lambda: as_seen(visitor, ask))

    # Changes.

    async def _events(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.visitor(shown_token(request))
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        try:
            with self._streams.opened(visitor.key) as stream:
                if since:
                    number = _number(since)
                    # A page that received an unknown revision reloads everything.
                    stream.add(None if number is None else self._map_state.changed_since(number))
                await response.prepare(request)
                await response.write(events.HEARTBEAT)
                await self._send_changes(request, response, stream)
        except ConnectionError:
            # The viewer has disconnected.
            pass
        return response

    async def _send_changes(self, request: web.Request, response: web.StreamResponse, stream: Stream) -> None:
        """Send changes until the stream ends, its viewer loses access, or the connection is closed."""
        clock = asyncio.get_running_loop().time
        sent_at = clock()
        while not stream.ended and request.transport is not None:
            await stream.wait(LOOK_SECONDS)
            try:
                await self._access.visitor(shown_token(request))
            except (SignInRequired, NotPermitted):
                await response.write(events.LOGIN)
                return
            except AccessRefused:
                return
            event = stream.take(self._streams.revision)
            if not event and clock() - sent_at > HEARTBEAT_SECONDS:
                event = events.HEARTBEAT
            if event:
                await response.write(event)
                sent_at = clock()


def _viewer(request: web.Request, visitor: Visitor) -> Viewer:
    return Viewer(visitor.name, can_sign_out=has_cookie(request))


def _is_program(request: web.Request) -> bool:
    """Return whether the client is a program, which reads JSON."""
    return request.path.startswith("/api/") or request.path == _EVENTS


def _fleet_query(request: web.Request) -> FleetQuery:
    """Return the filters of a request; raise `BadInput` if they are invalid."""
    return fleet_query.parse((name, value) for name, value in request.query.items() if name != "name")


def _number(text: str) -> int | None:
    """Return a whole number that is not too long; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER else None


_LONGEST_NUMBER = 18
_SENTENCES: Mapping[int, str] = {
    HTTPStatus.NOT_FOUND: "This page does not exist.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This page does not support this method.",
}
