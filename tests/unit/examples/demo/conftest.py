"""A paper to read from, a stage to play on, and a webhook that says what a test tells it to."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from examples.demo import story
from examples.demo.calls import Post
from examples.demo.story import DemoFiles
from kubectl_numa.lines import TextWriter

Fake = Callable[..., Post]


@pytest.fixture
def sheet() -> TextWriter:
    """An empty sheet of 80 columns, to be read from its console's file."""
    return TextWriter(Console(file=io.StringIO(), width=80))


@pytest.fixture
def stage() -> Iterator[DemoFiles]:
    """A folder with the bundled cluster and a certificate."""
    with story.stage() as here:
        yield here


@pytest.fixture
def fake() -> Fake:
    """A webhook's answers, without a webhook."""

    def answering(
        mutation: dict[str, Any] | None = None,
        validation: dict[str, Any] | None = None,
        *,
        patch: list[dict[str, Any]] | None = None,
        seen: list[tuple[str, Any]] | None = None,
    ) -> Post:
        async def post(path: str, body: bytes) -> tuple[int, bytes]:
            request = json.loads(body)["request"]
            if seen is not None:
                seen.append((path, request))
            said = dict((mutation if path == "/mutate" else validation) or {})
            if path == "/mutate" and patch is not None:
                said["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
            return 200, json.dumps({"response": {"uid": request["uid"], "allowed": True, **said}}).encode()

        return post

    return answering
