"""Responses of the map: with security headers for browsers, and in chunks if they are long."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web

from numalign.map.links import STATIC
from numalign.runtime.cooperative import TimeSlice

HTML = "text/html"

PACKING = 3
"""The compression level of zlib, of 9: a page of 5,000 nodes shrinks to a tenth in a fraction of a second."""

_GZIP = 31
"""The `wbits` of zlib for the gzip format."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The header of every page: nothing inline, nothing from other sites, no framing."""

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # With no-referrer, browsers would send the origin of the map's own forms as null.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)
"""The default headers of every response."""


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """Set the security headers of a response before it is sent."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    # By default, aiohttp sends its name and version.
    response.headers["Server"] = "numalign"


async def send(
    request: web.Request, response: web.StreamResponse, chunks: Iterable[str] = ()
) -> web.StreamResponse:
    """Send a response unless it was sent already, compressed if the client accepts that.

    Other tasks run between its `chunks`.
    """
    if response.prepared:
        return response
    if request.method == "HEAD":
        # aiohttp would send the end of a chunked body.
        return web.Response(status=response.status, headers=response.headers)
    packer = None
    if isinstance(response, web.Response):
        response.enable_compression()
    elif "gzip" in request.headers.get("Accept-Encoding", "").lower():
        response.headers["Content-Encoding"] = "gzip"
        packer = zlib.compressobj(PACKING, wbits=_GZIP)
    try:
        await response.prepare(request)
        time_slice = TimeSlice()
        for chunk in chunks:
            # Text from files may have lone surrogates.
            piece = chunk.encode(errors="replace")
            if packer:
                # A browser can draw each chunk at once; aiohttp would buffer many.
                piece = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
            await response.write(piece)
            await time_slice.share()
        await response.write_eof(packer.flush() if packer else b"")
    except ConnectionError:
        # The client has disconnected; aiohttp detects that itself.
        pass
    except Exception:
        # Part of the response may be sent already: the client must not take it for all of it.
        if request.transport is not None:
            request.transport.abort()
        raise
    return response


def stream_of_html() -> web.StreamResponse:
    """Return the response of a page that is sent in chunks."""
    return web.StreamResponse(headers={"Content-Type": f"{HTML}; charset=utf-8"})


def page(
    text: str, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a response with a page."""
    body = text.encode(errors="replace")
    return web.Response(body=body, content_type=HTML, charset="utf-8", status=status, headers=headers)


async def drawn(draw: Callable[[], str]) -> web.Response:
    """Return a page that is rendered in a thread, from views, which do not change."""
    return page(await asyncio.to_thread(draw))


async def json(form: Callable[[], Any]) -> web.Response:
    """Return the value of `form` as JSON, computed in a thread likewise."""
    body = await asyncio.to_thread(lambda: orjson.dumps(form(), option=orjson.OPT_NON_STR_KEYS))
    return web.Response(body=body, content_type="application/json")


def redirect(path: str) -> web.Response:
    """Return a redirect of the browser to a path of this server, with a GET."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": path})


async def static(request: web.Request) -> web.StreamResponse:
    """Return a file that pages load; it is cached for ever if it is requested by its version."""
    asset = STATIC.get(request.match_info["name"])
    if asset is None:
        raise web.HTTPNotFound(text="This file does not exist.")
    is_current = request.query.get("v") == asset.version
    headers = {"Cache-Control": "public, max-age=31536000, immutable" if is_current else "no-cache"}
    response = web.Response(
        body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers
    )
    return await send(request, response)
