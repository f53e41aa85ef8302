"""
The fake API server as a separate program, with processor time and memory of its own.

    python -m tools.clusters.fake_api_program OBJECTS PORT

reads a list of objects, and serves them until it is killed. It regularly deletes the requests and the
history, so it can run for hours.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson

from tools.clusters.fake_api import FakeApi, Json

FORGET_SECONDS = 5

VIEWERS = 64
"""The number of users that it knows, for token and access reviews."""


def viewer(number: int) -> str:
    """Return the token of a user who may see everything."""
    return f"token-of-viewer-{number}"


async def main(objects: Iterable[Json], port: int) -> None:
    """Serve objects until killed."""
    async with FakeApi(
        port=port, people={viewer(number): f"user-{number}" for number in range(VIEWERS)}
    ) as api:
        for each in objects:
            api.put(each)
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            # Open watches continue; watches of earlier versions are refused, so their clients list again.
            api.requests.clear()
            api.compact()


if __name__ == "__main__":
    listed, at = sys.argv[1:]
    asyncio.run(main(orjson.loads(Path(listed).read_bytes())["items"], int(at)))
