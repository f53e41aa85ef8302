"""
Calls to the webhook, as an API server makes them: first mutate, then validate the result.

A pod that mutation changed is validated as changed. Connections are kept and reused, and the number of
concurrent reviews is limited. Any response that is not a valid review is an error, never a decision.

    ClickException
    └── BadAnswer    a response that an API server would not accept
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import click
import orjson

from kubectl_numa.demo import patches, reviews
from kubectl_numa.demo.webhook import RunningWebhook

HEADERS: Mapping[str, str] = {"Content-Type": "application/json"}
# The longest timeout that an API server allows.
TIMEOUT = aiohttp.ClientTimeout(total=30)


class BadAnswer(click.ClickException):
    """Raised if the webhook's response does not answer the review."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The outcome of one pod. `stored` is the pod as it would be stored, None if it is denied.

    `operations` are those of the patch; `message` is why it is denied, and `causes` are the single mistakes.
    """

    pod: Mapping[str, Any]
    stored: Mapping[str, Any] | None
    operations: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    causes: tuple[str, ...] = ()

    @property
    def outcome(self) -> frozenset[str]:
        """The outcome in words: `denied`, or `admitted` with `patched` and `warned` where they apply."""
        if self.stored is None:
            return frozenset({"denied"})
        words = {"admitted": True, "patched": self.operations, "warned": self.warnings}
        return frozenset(word for word, applies in words.items() if applies)


Post = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Sends a body to a path of the webhook; returns the status and the body of the response."""


@contextlib.asynccontextmanager
async def line_to(webhook: RunningWebhook, *, connections: int) -> AsyncIterator[Post]:
    """Open connections to a webhook, which trust its own CA, and keep them until the context ends."""
    trust = ssl.create_default_context(cafile=webhook.ca)
    connector = aiohttp.TCPConnector(limit=connections, ssl=trust)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT, headers=HEADERS) as session:

        async def post(path: str, body: bytes) -> tuple[int, bytes]:
            try:
                async with session.post(f"{webhook.url}{path}", data=body) as response:
                    return response.status, await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise await webhook.died(f"answering {path} ({type(error).__name__})") from error

        yield post


async def admit(post: Post, manifest: Mapping[str, Any], *, uid: str) -> PodOutcome:
    """Have one pod reviewed as by an API server; raises `BadAnswer` and `WebhookDied`."""
    pod = reviews.defaulted(manifest)
    mutation = await _ask(post, "/mutate", pod, uid=f"{uid}-m")
    operations = tuple(orjson.loads(base64.b64decode(mutation["patch"]))) if "patch" in mutation else ()
    try:
        stored = patches.apply(pod, operations) if operations else pod
    except patches.BadPatch as error:
        raise BadAnswer(f"/mutate: {error}") from error
    validation = await _ask(post, "/validate", stored, uid=f"{uid}-v")
    warnings = (*mutation.get("warnings", ()), *validation.get("warnings", ()))
    if validation["allowed"]:
        return PodOutcome(pod, stored, operations, warnings)
    status = validation["status"]
    causes = tuple(
        f"{cause['field']}: {cause['message']}" for cause in status.get("details", {}).get("causes", ())
    )
    return PodOutcome(pod, None, operations, warnings, status["message"], causes)


async def admit_all(
    post: Post, manifests: Iterable[Mapping[str, Any]], *, at_once: int, done: Callable[[PodOutcome], None]
) -> None:
    """Have many pods reviewed, `at_once` concurrently; `done` is called with each outcome as it arrives."""
    numbered, failed = enumerate(manifests), None

    async def work() -> None:
        for number, manifest in numbered:
            done(await admit(post, manifest, uid=f"demo-{number:05}"))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
    except* click.ClickException as errors:
        failed = errors
    if failed:
        # Report only the first one: they all have the same cause.
        raise failed.exceptions[0]


async def _ask(post: Post, path: str, pod: Mapping[str, Any], *, uid: str) -> dict[str, Any]:
    """Return the `response` of the review that the webhook returns; raises `BadAnswer`."""
    status, body = await post(path, orjson.dumps(reviews.review(pod, uid=uid)))
    if status != HTTPStatus.OK:
        raise BadAnswer(f"{path} answered {status}: {body[:200].decode(errors='replace')}")
    try:
        response: dict[str, Any] = orjson.loads(body)["response"]
        mine = response["uid"] == uid and isinstance(response["allowed"], bool)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        mine = False
    if not mine:
        raise BadAnswer(f"{path} gave no answer to review {uid}: {body[:200].decode(errors='replace')}")
    return response
