"""Decoding of submitted forms."""

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.multipart import BodyPartReader

from numalign.model.errors import BadInput, Mistake

URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

MOST_FIELDS = 8
"""Most fields of a form; those of the map have three at most."""


async def fields(body: bytes, content_type: str) -> Mapping[str, bytes]:
    """Return the values of a form by name, files by their content; `content_type` is that of its header.

    Raises `BadInput` for an invalid form, and for one with more fields than any form of the map.
    """
    named = content_type.partition(";")[0].strip().lower()
    if named not in (URLENCODED, MULTIPART):
        unsupported = f'unsupported content type "{named}": send a form of this map'
        raise BadInput([Mistake("Content-Type", unsupported)])
    try:
        if named == MULTIPART:
            return await _multipart(body, content_type)
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        return {name.decode(errors="replace"): value for name, value in pairs}
    except (ValueError, HttpProcessingError) as error:
        reason = "it is incomplete, or has more fields than any form of this map"
        raise BadInput([Mistake("", f"the form cannot be read: {reason}")]) from error


def text(values: Mapping[str, bytes], name: str) -> str:
    """Return a value as text; empty if it is missing. Bytes that are not UTF-8 are replaced."""
    return values.get(name, b"").decode(errors="replace")


async def _multipart(body: bytes, content_type: str) -> dict[str, bytes]:
    loop = asyncio.get_running_loop()
    # The whole body is there, so the protocol never has to pause reading.
    content = aiohttp.StreamReader(BaseProtocol(loop), len(body) + 1, loop=loop)
    content.feed_data(body)
    content.feed_eof()
    reader = aiohttp.MultipartReader({"Content-Type": content_type}, content)
    pairs: dict[str, bytes] = {}
    while part := await reader.next():
        if not isinstance(part, BodyPartReader) or part.name is None or len(pairs) == MOST_FIELDS:
            raise ValueError("it contains an unknown field")
        pairs[part.name] = bytes(await part.read())
    return pairs
