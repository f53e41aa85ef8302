"""
Namespaces that the watch has not reported yet, asked of the API server.

A namespace may be less than a second older than its first pod, and a watch may be late. That nothing is known
of a namespace must not mean that it enforces nothing. The names come from callers, who may invent them: so
questions are limited, equal ones are asked once, and answers are kept only until the watch should have them.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import quote

from numalign.kube.decode import namespaces
from numalign.kube.decode.namespaces import NamespaceFacts
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, NotFound, Throttled, Unreachable
from numalign.kube.gates import answered_within
from numalign.kube.kinds import Object
from numalign.lru import LRU
from numalign.runtime.token_bucket import TokenBucket

PATIENCE_SECONDS = 1.0
"""The timeout of a question: API servers wait two seconds for an answer to a review."""

KEPT_SECONDS = 1.0
"""How long an answer counts."""

MOST_KEPT = 64
"""The limit of namespaces that are known by an answer."""

PER_SECOND, BURST = 16, 64
"""The limit of questions; a burst of new namespaces is rare, and the watch reports them within a second."""

MOST_BYTES = 2**21
"""The limit of a namespace that is read: an API server stores smaller objects only."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""The names that a namespace can have (k8s.io/apimachinery, IsDNS1123Label)."""


class NamespaceReader(Protocol):
    """The method of `Api` that is used; the real one raises `ClusterError`."""

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """Return the object at `path`."""


async def read(api: NamespaceReader, name: str) -> NamespaceFacts:
    """Return what a namespace requests by its labels now; raise `ClusterError`."""
    path = f"/api/v1/namespaces/{quote(name, safe='')}"
    raw = await api.get(path, what=f"namespace {name}", most=MOST_BYTES)
    if Part(raw)["metadata"]["name"].text() != name:
        raise Unreachable(f"the API server's answer is invalid: it is not namespace {name}")
    facts, _mistakes = namespaces.facts(cast("Object", raw))
    return facts


@dataclass(eq=False)
class LateNamespaces:
    """Asks `api` for namespaces; times are seconds of `clock`."""

    api: NamespaceReader
    clock: Callable[[], float]
    _asked: dict[str, "asyncio.Task[NamespaceFacts | ClusterError | None]"] = field(
        init=False, default_factory=dict
    )
    _kept: LRU[str, tuple[float, NamespaceFacts]] = field(init=False, default_factory=lambda: LRU(MOST_KEPT))

    def __post_init__(self) -> None:
        self._questions = TokenBucket(PER_SECOND, BURST, clock=self.clock)

    async def facts(self, name: str) -> NamespaceFacts | None:
        """Return what a namespace requests, None if there is no such namespace.

        Raise `ClusterError` if that could not be found out within `PATIENCE_SECONDS`.
        """
        if not _NAME.fullmatch(name):
            return None
        until, kept = self._kept.peek(name) or (0.0, None)
        if kept and self.clock() < until:
            return kept
        if (task := self._asked.get(name)) is None:
            if not self._questions.take():
                raise Throttled(f"namespace {name} was not read: too many unknown namespaces were named")
            task = self._asked[name] = asyncio.create_task(self._ask(name))
            task.add_done_callback(lambda _done: self._asked.pop(name, None))
        # A caller that goes away takes no answer from the others.
        answer = await asyncio.shield(task)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def _ask(self, name: str) -> NamespaceFacts | ClusterError | None:
        try:
            async with answered_within(PATIENCE_SECONDS, what=f"namespace {name}"):
                facts = await read(self.api, name)
        except NotFound:
            return None
        except ClusterError as error:
            return error
        self._kept.put(name, (self.clock() + KEPT_SECONDS, facts))
        return facts
