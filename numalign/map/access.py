"""
Access to the map, and to the names of pods.

In a cluster, visitors present a token, and the API server authenticates and authorizes them: to see the map
they must be allowed to list NodeResourceTopologies, and to see the names of pods to list pods, in all
namespaces or in one. Its answers are cached for a minute; without an answer nobody is admitted. On a local
machine only pages of other sites in the same browser must be kept out.

    AccessRefused
    ├── SignInRequired     no token, or one that is not valid (any more)
    ├── NotPermitted       an authenticated user without permission
    └── Unavailable        access cannot be checked, or a limit is exceeded
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from numalign.kube import reviews
from numalign.kube.client import ObjectWriter
from numalign.kube.decode import nrt
from numalign.kube.errors import ClusterError, UnknownToken
from numalign.kube.reviews import KubeUser, Permission
from numalign.lru import LRU, Caches, digest, is_large
from numalign.map.views import Visible
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.token_bucket import TokenBucket

T = TypeVar("T")

SESSIONS = 1024
"""Most tokens to remember, by their digests."""

REVIEW_SECONDS = 60.0
"""How long in seconds the API server's answer about a token is cached."""

MOST_NAMESPACES = 256
"""Most namespaces to check with the API server for one page; pods of others stay without names."""

NAMESPACES_REMEMBERED = 1024
"""Most namespaces to remember for one token."""

UNKNOWN_TOKENS_PER_SECOND, UNKNOWN_TOKENS_BURST = 10.0, 50
"""Rate and burst at which unknown tokens are sent to the API server."""

REVIEWS_AT_ONCE = 8
PATIENCE_SECONDS = 10.0
"""The timeout in seconds of a token's review by the API server."""

LONGEST_TOKEN = 8192
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{1,{LONGEST_TOKEN}}}")
"""The characters of a bearer token (RFC 6750, section 2.1)."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1123; other names are neither checked with the API server nor remembered."""

LOOK = Permission("list", "noderesourcetopologies", nrt.GROUP)
"""The permission that is required to see the map."""


class SignIn(StrEnum):
    """The result of signing in with a new token."""

    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"
    UNAVAILABLE = "unavailable"
    TOO_MANY = "too_many"


class AccessRefused(Exception):
    """Why access is denied, in a sentence for the visitor; `status` is that of the response."""

    status: ClassVar[HTTPStatus] = HTTPStatus.FORBIDDEN


class SignInRequired(AccessRefused):
    """Raised without a token, or for one that is not valid."""

    status = HTTPStatus.UNAUTHORIZED


class NotPermitted(AccessRefused):
    """Raised for an authenticated user without permission, or for the host name of another machine."""


class Unavailable(AccessRefused):
    """Raised if access cannot be checked, nothing is known of the cluster yet, or a limit is exceeded."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class LocalVisitor:
    """A visitor on the local machine, who has no name and may see everything."""

    name: str = ""
    key: bytes = b""

    def sees(self, namespace: str) -> bool | None:  # noqa: ARG002  it is all the same
        """Return true."""
        return True

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Do nothing: everything is known."""


class LocalAccess:
    """Admits requests that address this machine by a local name.

    A page of another site can resolve its own name to 127.0.0.1 and read what is served there, but the
    browser then sends that name (DNS rebinding).
    """

    signs_in = False

    def check_host(self, request: web.Request) -> None:
        """Raise `NotPermitted` if the request is for another host name."""
        try:
            host = urlsplit(f"//{request.headers.get('Host', '')}").hostname
        except ValueError:
            host = None
        if host not in LOCAL_HOSTS:
            raise NotPermitted("this map is only served on this machine: open it as http://localhost")

    async def visitor(self, token: str | None) -> LocalVisitor:  # noqa: ARG002  nobody asks for one
        """Return a local visitor."""
        return LocalVisitor()


@dataclass(eq=False, slots=True)
class SignedInVisitor:
    """A user whom the API server authenticated; cached until `until`, in seconds of the clock.

    The `key` is the same for all requests with one token.
    """

    user: KubeUser
    key: bytes
    until: float
    everywhere: bool
    ask: Callable[[KubeUser, str], Awaitable[bool]]
    _namespaces: LRU[str, bool] = field(default_factory=lambda: LRU(NAMESPACES_REMEMBERED))

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.user.name

    def sees(self, namespace: str) -> bool | None:
        """Return whether the user may list pods there; None if not checked, False for an invalid name."""
        if self.everywhere:
            return True
        return self._namespaces.find(namespace) if _NAMESPACE.fullmatch(namespace) else False

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Check each namespace that is not known, some at a time."""
        unknown = [namespace for namespace in namespaces if self.sees(namespace) is None]
        answers = await asyncio.gather(
            *(self.ask(self.user, namespace) for namespace in unknown), return_exceptions=True
        )
        for namespace, answer in zip(unknown, answers, strict=True):
            if isinstance(answer, bool):
                self._namespaces.put(namespace, answer)


Visitor = LocalVisitor | SignedInVisitor


async def as_seen(visitor: Visitor, build: Callable[[Visible], Awaitable[T]]) -> T:
    """Return what `build` builds for a visitor, again once the unknown namespaces it uses are checked."""
    unknown = set[str]()

    def visible(namespace: str) -> bool:
        sees = visitor.sees(namespace)
        if sees is None:
            unknown.add(namespace)
        return sees is True

    view = await build(visible)
    if not unknown:
        return view
    await visitor.learn(sorted(unknown)[:MOST_NAMESPACES])
    return await build(lambda namespace: visitor.sees(namespace) is True)


class TokenAccess:
    """Admits users whom the API server authenticates and allows to list topologies.

    A token must be issued for the `audience`, by default that of the API server. The answer is cached for
    `review_seconds`. `signs_in` is true: visitors sign in with a token.
    """

    signs_in = True

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: ObjectWriter,
        *,
        audience: str = "",
        review_seconds: float = REVIEW_SECONDS,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._audience = audience
        self._review_seconds = review_seconds
        self._log = QuietLog(log, lines=MANY_LINES)
        self._clock = clock
        self._sessions: LRU[bytes, SignedInVisitor] = LRU(
            SESSIONS, large=lambda _key, session: is_large(session.user)
        )
        self._reviewing: dict[bytes, asyncio.Task[SignedInVisitor]] = {}
        self._unknown_tokens = TokenBucket(UNKNOWN_TOKENS_PER_SECOND, UNKNOWN_TOKENS_BURST, clock=clock)
        self._at_once = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._sign_ins = Counter(
            f"{PREFIX}map_sign_ins",
            "Sign-ins to the map with a new token, by result.",
            ["result"],
            registry=registry,
        )
        for result in SignIn:
            self._sign_ins.labels(result)

    def caches(self) -> Caches:
        """Return the caches of visitors."""
        return {"map_sessions": self._sessions}

    def check_host(self, request: web.Request) -> None:
        """Accept any name: browsers send a cookie only to the host name that set it."""

    async def visitor(self, token: str | None) -> SignedInVisitor:
        """Return the visitor with a token, by API server or cache; raise `AccessRefused` if denied."""
        if not token:
            raise SignInRequired("Sign in to see the map.")
        if not _TOKEN.fullmatch(token):
            raise SignInRequired("This is not a token: paste the output of `kubectl create token NAME`.")
        key = digest(token.encode())
        session = self._sessions.find(key)
        if session and self._clock() < session.until:
            return session
        if key not in self._reviewing:
            if session is None and not self._unknown_tokens.take():
                self._sign_ins.labels(SignIn.TOO_MANY).inc()
                raise Unavailable("Too many users are signing in: try again in a moment.")
            task = asyncio.create_task(self._review(key, token, is_new=session is None))
            self._reviewing[key] = task
            task.add_done_callback(partial(self._reviewed, key))
        # A request that is cancelled must not cancel the review for others with the same token.
        return await asyncio.shield(self._reviewing[key])

    def _reviewed(self, key: bytes, task: asyncio.Task[SignedInVisitor]) -> None:
        del self._reviewing[key]
        if not task.cancelled():
            # Retrieve the exception, as no request may be waiting for it any more.
            task.exception()

    async def _review(self, key: bytes, token: str, *, is_new: bool) -> SignedInVisitor:
        """Authenticate and authorize a token with the API server; raise `AccessRefused` if denied."""
        self._sessions.drop(key)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._at_once:
                user = await reviews.authenticate(self._api, token, audience=self._audience)
                may_look = await reviews.allowed(self._api, user, LOOK)
                everywhere = may_look and await reviews.allowed(self._api, user, Permission("list", "pods"))
        except UnknownToken as error:
            self._refused(SignIn.UNKNOWN, error=error)
            text = str(error)
            raise SignInRequired(
                f"{text[:1].upper()}{text[1:]}. It may have expired: create a new one."
            ) from error
        except (ClusterError, TimeoutError) as error:
            self._sign_ins.labels(SignIn.UNAVAILABLE).inc()
            self._unreviewed(error)
            raise Unavailable(
                "The API server could not check your token and permissions: try again later."
            ) from error
        if not may_look:
            self._refused(SignIn.FORBIDDEN, user=user.name)
            raise NotPermitted(
                f"{user.name} may not list noderesourcetopologies.topology.node.k8s.io, which is"
                " required to see the map: ask an administrator to bind the ClusterRole"
                " numalign-map-viewer to it."
            )
        if is_new:
            self._sign_ins.labels(SignIn.ACCEPTED).inc()
            self._log.info("map.signed_in", user=user.name, sees_all_pods=everywhere)
        session = SignedInVisitor(user, key, self._clock() + self._review_seconds, everywhere, self._sees)
        self._sessions.put(key, session)
        return session

    async def _sees(self, user: KubeUser, namespace: str) -> bool:
        """Return whether a user may list pods in a namespace; raise `ClusterError` or `TimeoutError`."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._at_once:
                permission = Permission("list", "pods", namespace=namespace)
                return await reviews.allowed(self._api, user, permission)
        except (ClusterError, TimeoutError) as error:
            self._unreviewed(error)
            raise

    def _unreviewed(self, error: ClusterError | TimeoutError) -> None:
        late = isinstance(error, TimeoutError)
        self._log.warning("map.review_failed", error="the API server did not answer" if late else error)

    def _refused(self, result: SignIn, **fields: object) -> None:
        self._sign_ins.labels(result).inc()
        self._log.info("map.sign_in_failed", reason=str(result), **fields)


MapAccess = LocalAccess | TokenAccess
