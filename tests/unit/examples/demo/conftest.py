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
def text(output: TextWriter) -> Callable[[], str]:
    """Return a function that returns what the output has."""
    file = output.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue


def fake(
    *,
    patch: list[dict[str, Any]] | None = None,
    validation: dict[str, Any] | None = None,
    requests: list[tuple[str, Any]] | None = None,
) -> Post:
    """Return the responses of a webhook."""

    async def post(path: str, body: bytes) -> tuple[int, bytes]:
        request = json.loads(body)["request"]
        if requests is not None:
            requests.append((path, request))
        response = dict((validation or {}) if path == "/validate" else {})
        if path == "/mutate" and patch is not None:
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        return 200, json.dumps({"response": {"uid": request["uid"], "allowed": True, **response}}).encode()

    return post
