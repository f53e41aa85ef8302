"""
The fake API server as a program of its own, so that what it takes of a processor and of memory is its own.

    python -m harness.fake_api_program OBJECTS PORT

reads a list of objects, serves them, and goes on until it is killed. It forgets what nobody asks for any
more, so that it can be asked for hours.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson

from harness.fake_api import FakeApi, Json

FORGET_SECONDS = 5

VIEWERS = 64
"""People whom it knows, for programs that ask."""


def viewer(number: int) -> str:
    """The token of somebody who may see everything."""
    return f"token-of-viewer-{number}"


async def main(objects: Iterable[Json], port: int) -> None:
    """Serve until killed."""
    async with FakeApi(
        port=port, people={viewer(number): f"user-{number}" for number in range(VIEWERS)}
    ) as api:
        for each in objects:
            api.put(each)
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            # Open watches go on; whoever asks for what was before now is told to list.
            api.requests.clear()
            api.compact()


if __name__ == "__main__":
    listed, at = sys.argv[1:]
    asyncio.run(main(orjson.loads(Path(listed).read_bytes())["items"], int(at)))
