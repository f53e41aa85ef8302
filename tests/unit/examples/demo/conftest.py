"""An empty output, the files of the demo, and a fake webhook."""

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
def output() -> TextWriter:
    """An output of 80 columns, written to its console's file."""
    return TextWriter(Console(file=io.StringIO(), width=80))


@pytest.fixture
def files() -> Iterator[DemoFiles]:
    """A folder with the bundled cluster and a certificate."""
    with story.stage() as made:
        yield made


@pytest.fixture
def fake() -> Fake:
    """Return a function that makes the responses of a webhook."""

    def answering(
        mutation: dict[str, Any] | None = None,
        validation: dict[str, Any] | None = None,
        *,
        patch: list[dict[str, Any]] | None = None,
        requests: list[tuple[str, Any]] | None = None,
    ) -> Post:
        async def post(path: str, body: bytes) -> tuple[int, bytes]:
            request = json.loads(body)["request"]
            if requests is not None:
                requests.append((path, request))
            response = dict((mutation if path == "/mutate" else validation) or {})
            if path == "/mutate" and patch is not None:
                response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
            return 200, json.dumps(
                {"response": {"uid": request["uid"], "allowed": True, **response}}
            ).encode()

        return post

    return answering
