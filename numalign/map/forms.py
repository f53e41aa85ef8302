"""
What browsers send when a form is submitted.

The body is there as a whole by then, and bounded (`numalign.runtime.calls`). Bytes that are no UTF-8 are
replaced: a manifest with such is refused by whoever reads it.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.multipart import BodyPartReader

from numalign.model.errors import BadInput, Mistake
from numalign.runtime import calls

MOST_FIELDS = 8
"""Ours have three at most."""

_BUFFER = 2**16


async def fields(request: web.Request) -> Mapping[str, str]:
    """The values of a form by their names; files by their content.

    Raises `BadInput` for what is no form, or has more fields than any of ours.
    """
    read = _READERS.get(request.content_type)
    if read is None:
        raise BadInput(
            [Mistake("Content-Type", f"{request.content_type} is no form: send a form of this map")]
        )
    try:
        pairs = await read(request)
    except (ValueError, RuntimeError) as error:
        raise BadInput([Mistake("", f"the form cannot be read: {error}")]) from error
    if len(pairs) > MOST_FIELDS:
        raise BadInput([Mistake("", f"the form has more than {MOST_FIELDS} fields")])
    return pairs


async def _urlencoded(request: web.Request) -> dict[str, str]:
    body = calls.body(request).decode(errors="replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))


async def _multipart(request: web.Request) -> dict[str, str]:
    loop = asyncio.get_running_loop()
    content = aiohttp.StreamReader(BaseProtocol(loop), _BUFFER, loop=loop)
    content.feed_data(calls.body(request))
    content.feed_eof()
    reader = aiohttp.MultipartReader(request.headers, content)
    pairs: dict[str, str] = {}
    while len(pairs) <= MOST_FIELDS and (part := await reader.next()):
        if not isinstance(part, BodyPartReader) or part.name is None:
            raise ValueError("a part of it is no field")
        pairs[part.name] = bytes(await part.read()).decode(errors="replace")
    return pairs


_READERS = {"application/x-www-form-urlencoded": _urlencoded, "multipart/form-data": _multipart}
