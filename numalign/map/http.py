"""
The map over HTTP: pages for browsers, the same content as JSON for programs, and a stream of changes.

Every response is built for the authorized user who requests it. Pages are rendered in a thread or in chunks,
and what-if questions are computed in steps: in the controller, requests for the map must not delay decisions
about pods.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from aiohttp.typedefs import Handler

from numalign.map import access, answers, events, fleet_query, forms, json_forms, pasted
from numalign.map.access import (
    AccessRefused,
    MapAccess,
    NotPermitted,
    SignInRequired,
    Visitor,
    as_seen,
)
from numalign.map.events import Stream, Streams, TooManyStreams
from numalign.map.pages import Renderer, Viewer, WhatIfForm
from numalign.map.signing_in import SigningIn, check_origin
from numalign.map.state import MapState
from numalign.map.turnstile import Busy, Turnstile
from numalign.map.views import FleetQuery, NodeTile, NodeView, PodView, Visible, WhatIfResult
from numalign.map.what_if import MOST_REPLICAS, WhatIf
from numalign.model.errors import BadInput, Mistake
from numalign.runtime import calls
from numalign.runtime.limits import Limits, Timeouts
from numalign.runtime.logs import Log

LIMITS = Limits(calls=512, bytes=16 * 1024**2, body=1024**2, connections=1024)
"""The limits of the port of the map; an encoded form is up to three times as long as its content."""

TIMEOUTS = Timeouts(body=20)
"""Browsers have slower connections than API servers."""

MOST_TILES = 200

LOOK_SECONDS, HEARTBEAT_SECONDS = 1.0, 15.0
"""Intervals in seconds at which a stream checks its viewer's access and connection, and sends a heartbeat."""

_EVENTS = "/events"
_API = "/api/"


class NotReady(AccessRefused):
    """Raised while the state of the cluster is not known yet."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


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
        app.add_routes([*self._routes(), *self._signing_in.routes()])

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._shown(self._fleet)),
            web.get("/tiles", self._shown(self._tiles)),
            web.get("/nodes/{name}", self._shown(self._node)),
            web.get("/pods/{namespace}/{name}", self._shown(self._pod)),
            web.get("/what-if", self._shown(self._what_if_form)),
            web.post("/what-if", self._shown(self._what_if)),
            web.get(_EVENTS, self._events, allow_head=False),
            web.get("/static/{name}", answers.static),
            web.get("/api/fleet", self._shown(self._fleet_json)),
            web.get("/api/nodes/{name}", self._shown(self._node_json)),
            web.get("/api/pods/{namespace}/{name}", self._shown(self._pod_json)),
            web.post("/api/what-if", self._shown(self._what_if_json)),
        ]

    async def follow(self) -> None:
        """Send changes to open pages; never returns, and ends all streams when it is cancelled."""
        await self._streams.follow(self._looked, self._map_state.changed_since, log=self._log)

    async def _looked(self) -> int:
        """Return the current revision after a refresh, so that no page has to wait for one."""
        await self._map_state.refresh()
        return self._map_state.revision

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
            return self._error(request, HTTPStatus.BAD_REQUEST, [*map(str, error.mistakes)])
        except web.HTTPException as error:
            allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            return self._error(request, HTTPStatus(error.status), [_message_of(error)], allow)

    def _refused(self, request: web.Request, refusal: AccessRefused) -> web.Response:
        headers = _HEADERS.get(refusal.status, {})
        could_sign_in = self._access.signs_in and isinstance(refusal, SignInRequired | NotPermitted)
        if _is_program(request) or not could_sign_in:
            return self._error(request, refusal.status, [str(refusal)], headers)
        message = str(refusal) if access.shown_token(request) else ""
        next_path = request.path_qs if request.method == "GET" else "/"
        return answers.page(self._renderer.login(message, next_path=next_path), refusal.status, headers)

    def _error(
        self,
        request: web.Request,
        status: HTTPStatus,
        mistakes: list[str],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> web.Response:
        if _is_program(request):
            return web.json_response({"error": "\n".join(mistakes)}, status=status, headers=headers)
        return answers.page(self._renderer.error(status, mistakes, Viewer(live=False)), status, headers)

    async def _visitor(self, request: web.Request) -> Visitor:
        return await self._access.visitor(access.shown_token(request))

    def _shown(
        self, handler: Callable[[web.Request, Visitor], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return a handler that admits the visitor and checks that the map is ready first."""

        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = await self._visitor(request)
            if reason := self._waiting_for():
                raise NotReady(f"The map is not ready yet: it is waiting for {reason}.")
            with self._turnstile.call(visitor.key):
                # The call counts until its response is sent.
                return await answers.send(request, await handler(request, visitor))

        return handle

    def _viewer(self, request: web.Request, visitor: Visitor) -> Viewer:
        return Viewer(visitor.name, can_sign_out=access.has_cookie(request))

    # Pages.

    async def _fleet(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        query = _fleet_query(request)
        fleet = await self._map_state.fleet(query)
        chunks = self._renderer.fleet(fleet, query, self._viewer(request, visitor))
        return await answers.send(request, answers.stream_of_html(), chunks)

    async def _tiles(self, request: web.Request, _visitor: Visitor) -> web.StreamResponse:
        names = frozenset(request.query.getall("name", []))
        if len(names) > MOST_TILES:
            raise BadInput(
                [Mistake("name", f"{len(names):,} nodes are requested: at most {MOST_TILES} are allowed")]
            )
        query = _fleet_query(request)
        fleet = await self._map_state.fleet(query)
        return await answers.drawn(partial(self._renderer.tiles, fleet, query, names))

    async def _node(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        view = await self._node_view(request, visitor)
        return await answers.drawn(partial(self._renderer.node, view, self._viewer(request, visitor)))

    async def _pod(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        view = await self._pod_view(request, visitor)
        return await answers.drawn(partial(self._renderer.pod, view, self._viewer(request, visitor)))

    async def _what_if_form(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        chunks = self._renderer.what_if(WhatIfForm(), None, {}, self._viewer(request, visitor))
        return await answers.send(request, answers.stream_of_html(), chunks)

    async def _what_if(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        fields = await forms.fields(calls.body(request), request.headers.get("Content-Type", ""))
        manifest = fields.get("file") or fields.get("manifest", b"")
        form = WhatIfForm(manifest.decode(errors="replace"), forms.text(fields, "replicas"))
        viewer, response = self._viewer(request, visitor), answers.stream_of_html()
        try:
            result = await self._worked_out(manifest, form.replicas, visitor)
        except BadInput as error:
            form = WhatIfForm(form.manifest, form.replicas, tuple(map(str, error.mistakes)))
            too_long = len(manifest) > pasted.MOST_BYTES
            response.set_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE if too_long else HTTPStatus.BAD_REQUEST)
            return await answers.send(request, response, self._renderer.what_if(form, None, {}, viewer))
        chunks = self._renderer.what_if(form, result, await self._tiles_by_name(), viewer)
        return await answers.send(request, response, chunks)

    async def _tiles_by_name(self) -> Mapping[str, NodeTile]:
        fleet = await self._map_state.fleet(FleetQuery())
        return {tile.name: tile for group in fleet.groups for tile in group.tiles}

    # JSON for programs.

    async def _fleet_json(self, request: web.Request, _visitor: Visitor) -> web.StreamResponse:
        fleet = await self._map_state.fleet(_fleet_query(request))
        return await answers.json(partial(json_forms.fleet_json, fleet))

    async def _node_json(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        return await answers.json(partial(json_forms.node_json, await self._node_view(request, visitor)))

    async def _pod_json(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        return await answers.json(partial(json_forms.pod_json, await self._pod_view(request, visitor)))

    async def _what_if_json(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        result = await self._worked_out(calls.body(request), request.query.get("replicas", ""), visitor)
        return await answers.json(partial(json_forms.what_if_json, result))

    # Views.

    async def _node_view(self, request: web.Request, visitor: Visitor) -> NodeView:
        name = request.match_info["name"]
        view = await as_seen(visitor, partial(self._map_state.node, name))
        if view is None:
            unknown = name in self._map_state.unknown
            reason = f"Node {name} publishes no topology." if unknown else f"There is no node {name}."
            raise web.HTTPNotFound(text=reason)
        return view

    async def _pod_view(self, request: web.Request, visitor: Visitor) -> PodView:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        view = await as_seen(visitor, partial(self._map_state.pod, namespace, name))
        if view is None:
            # Without permission to list pods there, a visitor must not learn whether it exists.
            raise web.HTTPNotFound(
                text=f"There is no pod {namespace}/{name}, or you may not list pods there."
            )
        return view

    async def _worked_out(self, text: bytes, replicas: str, visitor: Visitor) -> WhatIfResult:
        """Return the answer to a what-if question; raise `BadInput` or `Busy`."""
        count = _replicas(replicas)

        async def ask(visible: Visible) -> WhatIfResult:
            return await self._questions.ask(text, visible=visible, replicas=count, user=visitor.name)

        return await self._turnstile.answer(visitor.key, lambda: as_seen(visitor, ask))

    # Changes.

    async def _events(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._visitor(request)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        try:
            with self._streams.opened(visitor.key) as stream:
                if since:
                    stream.add(self._changes(since))
                await response.prepare(request)
                await response.write(events.HEARTBEAT)
                await self._send_changes(request, response, stream)
        except TooManyStreams as error:
            raise Busy("Too many pages are open: close some of them.") from error
        except ConnectionError:
            # The viewer has disconnected.
            pass
        return response

    def _changes(self, since: str) -> Iterable[str] | None:
        """Return what changed since the last revision that a page received; None if that is not known."""
        number = since.isascii() and since.isdigit() and len(since) < _LONGEST_NUMBER
        return self._map_state.changed_since(int(since)) if number else None

    async def _send_changes(self, request: web.Request, response: web.StreamResponse, stream: Stream) -> None:
        """Send changes until the stream ends, its viewer loses access, or the connection is closed."""
        clock = asyncio.get_running_loop().time
        sent_at = clock()
        while not stream.ended and request.transport is not None:
            await stream.wait(LOOK_SECONDS)
            try:
                await self._visitor(request)
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


def _is_program(request: web.Request) -> bool:
    """Return whether the client is a program, which reads JSON."""
    return request.path.startswith(_API) or request.path == _EVENTS


def _message_of(error: web.HTTPException) -> str:
    """Return the message of an error for people; the default text of aiohttp only repeats the status."""
    text = error.text or ""
    return _SENTENCES.get(error.status, error.reason) if text.startswith(f"{error.status}: ") else text


def _fleet_query(request: web.Request) -> FleetQuery:
    """Return the filters of a request; raise `BadInput` if they are invalid."""
    return fleet_query.parse((name, value) for name, value in request.query.items() if name != "name")


def _replicas(text: str) -> int | None:
    """Return the requested number, None to use that of the object; raise `BadInput` if it is invalid."""
    written = text.strip()
    if not written:
        return None
    count = int(written) if written.isascii() and written.isdigit() and len(written) < _LONGEST_NUMBER else 0
    if not 1 <= count <= MOST_REPLICAS:
        raise BadInput([Mistake("replicas", f"must be a whole number from 1 to {MOST_REPLICAS:,}")])
    return count


_LONGEST_NUMBER = 18
_SENTENCES: Mapping[int, str] = MappingProxyType(
    {
        HTTPStatus.NOT_FOUND: "This page does not exist.",
        HTTPStatus.METHOD_NOT_ALLOWED: "This page does not support this method.",
    }
)
_HEADERS: Mapping[HTTPStatus, Mapping[str, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
        HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "1"},
    }
)
