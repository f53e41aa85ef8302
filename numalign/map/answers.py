"""How answers leave the map: with headers that keep a browser from harm, and in pieces if they are long."""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web

from numalign.map.assets import CONTENT_SECURITY_POLICY, STATIC
from numalign.runtime.cooperative import TimeSlice

HTML = "text/html"

PACKING = 3
"""How hard zlib tries, out of nine: a page of 5,000 nodes becomes a tenth in a fraction of a second."""

_GZIP = 31
"""What zlib calls its format."""

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        # With no-referrer, browsers would give the origin of our own forms as null.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)
"""Of every answer, but where it says otherwise."""

_KEPT_FOR_GOOD, _ASKED_EACH_TIME = "public, max-age=31536000, immutable", "no-cache"


async def secure(_request: web.Request, response: web.StreamResponse) -> None:
    """Give an answer these headers, before it is sent."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    # aiohttp would name itself and its version.
    response.headers["Server"] = "numalign"


async def send(
    request: web.Request, response: web.StreamResponse, chunks: Iterable[str] = ()
) -> web.StreamResponse:
    """Send an answer that was not sent yet, compressed where that is understood.

    Others pass between its `chunks`.
    """
    if response.prepared:
        return response
    if request.method == "HEAD":
        # aiohttp would send the end of what is sent in pieces.
        return web.Response(status=response.status, headers=response.headers)
    pieces = _pieces(request, response, chunks)
    try:
        await response.prepare(request)
        time_slice = TimeSlice()
        for piece in pieces:
            await response.write(piece)
            await time_slice.share()
        await response.write_eof()
    except ConnectionError:
        # Whoever asked is gone; aiohttp finds out by itself.
        pass
    except Exception:
        # What was sent cannot be taken back: nobody must take it for the whole.
        if request.transport is not None:
            request.transport.abort()
        raise
    return response


def _pieces(request: web.Request, response: web.StreamResponse, chunks: Iterable[str]) -> Iterator[bytes]:
    """Return what is written for each chunk; the headers of the response say how."""
    if isinstance(response, web.Response):
        response.enable_compression()
        return iter(())
    # What is drawn may come out of files with halves of characters.
    encoded = (chunk.encode(errors="replace") for chunk in chunks)
    if "gzip" not in request.headers.get("Accept-Encoding", "").lower():
        return encoded
    response.headers["Content-Encoding"] = "gzip"
    return _packed(encoded)


def _packed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each chunk compressed, so that a browser can draw it at once; aiohttp would wait for many."""
    packer = zlib.compressobj(PACKING, wbits=_GZIP)
    for chunk in chunks:
        yield packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def stream_of_html() -> web.StreamResponse:
    """Return an answer that is a page, to be sent in chunks."""
    return web.StreamResponse(headers={"Content-Type": f"{HTML}; charset=utf-8"})


def page(
    text: str, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a page."""
    body = text.encode(errors="replace")
    return web.Response(body=body, content_type=HTML, charset="utf-8", status=status, headers=headers)


async def drawn(draw: Callable[[], str]) -> web.Response:
    """Return a page that is drawn in a thread, of views, which do not change."""
    return page(await asyncio.to_thread(draw))


async def json(form: Callable[[], Any]) -> web.Response:
    """Return what `form` gives, worked out in a thread likewise, for programs."""
    body = await asyncio.to_thread(lambda: orjson.dumps(form(), option=orjson.OPT_NON_STR_KEYS))
    return web.Response(body=body, content_type="application/json")


def redirect(path: str) -> web.Response:
    """Lead a browser on to a path of this server, with a GET."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": path})


async def static(request: web.Request) -> web.StreamResponse:
    """Return a file that pages load; for good, where it is asked for by its version."""
    asset = STATIC.get(request.match_info["name"])
    if asset is None:
        raise web.HTTPNotFound(text="This file does not exist.")
    kept = _KEPT_FOR_GOOD if request.query.get("v") == asset.version else _ASKED_EACH_TIME
    response = web.Response(
        body=asset.body,
        content_type=asset.content_type,
        charset="utf-8",
        headers={"Cache-Control": kept},
    )
    return await send(request, response)
