"""
Who may look at the map, and which names they see.

In a cluster whoever looks shows a token of theirs, and the API server says whose it is and what they may do:
to see the map they must be allowed to list NodeResourceTopologies, to see the names of pods to list pods, in
all namespaces or in one. What was said counts for a minute; where the API server says nothing, nobody is let
in. On one's own machine there is nobody else to keep out, except pages of other sites in the same browser.

    AccessRefused
    ├── SignInRequired    no token, or one that is not good (any more)
    ├── NotPermitted      somebody who is known and may not look
    └── CannotTell        nobody says whether they may
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Protocol, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from numalign.kube import reviews
from numalign.kube.client import ObjectWriter
from numalign.kube.decode import nrt
from numalign.kube.errors import ClusterError, UnknownToken
from numalign.kube.reviews import KubeUser, Permission
from numalign.lru import LRU, Caches, digest
from numalign.map.views import Visible
from numalign.memory_size import weight
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.token_bucket import TokenBucket

T = TypeVar("T")

SESSIONS = 1024
"""Tokens that are remembered, by their digests."""

REVIEW_SECONDS = 60.0
"""How long what the API server said of a token counts."""

MOST_NAMESPACES = 256
"""Namespaces about which the API server is asked for one page; pods of others stay without names."""

NAMESPACES_REMEMBERED = 1024
"""Of one token."""

STRANGERS_PER_SECOND, STRANGERS_AT_ONCE = 10.0, 50
"""How many tokens that nobody knows are shown to the API server."""

REVIEWS_AT_ONCE = 8
PATIENCE_SECONDS = 10.0
"""How long an API server may take to say whose a token is."""

LONGEST_TOKEN = 8192
LONGEST_COOKIE = 3800
"""Characters of a token that a cookie holds: browsers keep 4,096 bytes, with name and attributes."""

COOKIE, SECURE_COOKIE = "numalign-map", "__Host-numalign-map"

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{1,{LONGEST_TOKEN}}}")
"""RFC 6750, 2.1."""

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1123; whatever else somebody writes there is neither asked about nor remembered."""

LOOK = Permission("list", "noderesourcetopologies", nrt.GROUP)
"""What it takes to see the map."""


class SignIn(StrEnum):
    """What became of a token that was shown for the first time."""

    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"
    UNAVAILABLE = "unavailable"
    TOO_MANY = "too_many"


class AccessRefused(Exception):
    """Why somebody is not let in, in a sentence for them; `status` is that of the answer."""

    status: ClassVar[HTTPStatus]


class SignInRequired(AccessRefused):
    """Raised where there is no token, or none that is good."""

    status = HTTPStatus.UNAUTHORIZED


class NotPermitted(AccessRefused):
    """Raised for somebody who is known, and may not look."""

    status = HTTPStatus.FORBIDDEN


class CannotTell(AccessRefused):
    """Raised where nobody says whether somebody may look."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Visitor(Protocol):
    """Who looks at the map: `name` is empty where nobody signs in, `key` stands for whoever it is."""

    @property
    def name(self) -> str:
        """The name of the user."""

    @property
    def key(self) -> bytes:
        """The same for all that one token asks."""

    def sees(self, namespace: str) -> bool | None:
        """Return whether the names of pods there may be seen; None if that is not known yet."""

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Find out about some namespaces; what cannot be found out stays unknown."""


class MapAccess(Protocol):
    """Decides who may look."""

    @property
    def signs_in(self) -> bool:
        """Whether people show a token."""

    def check_host(self, request: web.Request) -> None:
        """Raise `AccessRefused` for a request that was never meant for this server."""

    async def visitor(self, token: str | None) -> Visitor:
        """Whoever shows a token; raises `AccessRefused`."""


async def as_seen(visitor: Visitor, build: Callable[[Visible], Awaitable[T]]) -> T:
    """What is built for a visitor; namespaces that are met on the way and not known yet are asked about."""
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


@dataclass(frozen=True, slots=True)
class LocalVisitor:
    """Somebody at their own machine, who may see everything there is."""

    name: str = ""
    key: bytes = b""

    def sees(self, namespace: str) -> bool:  # noqa: ARG002  it is all the same
        """Everything."""
        return True

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Nothing is left to find out."""


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """Lets in whoever calls this machine by a name of its own.

    A page of another site can have its own name lead to 127.0.0.1, and would read what is served there; but
    the browser then says that name (DNS rebinding).
    """

    hosts: frozenset[str] = LOCAL_HOSTS
    signs_in: bool = False

    def check_host(self, request: web.Request) -> None:
        """Raise `NotPermitted` for the name of another machine."""
        if host_name(request.headers.get("Host", "")) not in self.hosts:
            raise NotPermitted("this map is only served on this machine: open it as http://localhost")

    async def visitor(self, token: str | None) -> Visitor:  # noqa: ARG002  nobody asks for one
        """LocalVisitor alike."""
        return LocalVisitor()


def host_name(host: str) -> str:
    """Return the name in a `Host` header, without the port; empty for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


@dataclass(eq=False, slots=True)
class SignedInVisitor:
    """What the API server said of a token; it counts until `until`, in seconds of the clock."""

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

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory, about."""
        return weight(self.user.name, *self.user.groups, str(self.user.extra)) + self._namespaces.bytes

    def sees(self, namespace: str) -> bool | None:
        """Return whether the user may list pods there, if that was asked; False where no namespace can be."""
        if self.everywhere:
            return True
        return self._namespaces.find(namespace) if _NAMESPACE.fullmatch(namespace) else False

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Ask about each, some at a time."""
        unknown = [namespace for namespace in namespaces if self.sees(namespace) is None]
        answers = await asyncio.gather(
            *(self.ask(self.user, namespace) for namespace in unknown), return_exceptions=True
        )
        for namespace, answer in zip(unknown, answers, strict=True):
            if isinstance(answer, bool):
                self._namespaces.put(namespace, answer)


class TokenAccess:
    """Lets in whom the API server knows and lets list topologies.

    A token counts if it was made for the `audience`, by default that of the API server. What is said of it
    counts for `review_seconds`. `signs_in` is true: people show a token.
    """

    signs_in = True

    def __init__(  # noqa: PLR0913  a server, what to hold to, and what every part of a process is given
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
            SESSIONS, weigh=lambda _key, session: session.weight
        )
        self._reviewing: dict[bytes, asyncio.Task[SignedInVisitor]] = {}
        self._strangers = TokenBucket(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE, clock=clock)
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
        """Return what is remembered of those who look."""
        return {"map_sessions": self._sessions}

    def check_host(self, request: web.Request) -> None:
        """Any name will do: a token is shown by name, and a browser keeps a cookie to the name it is from."""

    async def visitor(self, token: str | None) -> Visitor:
        """Whoever shows a token, as the API server says or has just said."""
        if not token:
            raise SignInRequired("Sign in to see the map.")
        if not _TOKEN.fullmatch(token):
            raise SignInRequired("This is not a token: paste the output of `kubectl create token NAME`.")
        key = digest(token.encode())
        session = self._sessions.find(key)
        if session and self._clock() < session.until:
            return session
        if key not in self._reviewing:
            if session is None and not self._strangers.take():
                self._sign_ins.labels(SignIn.TOO_MANY).inc()
                raise CannotTell("Too many users are signing in: try again in a moment.")
            task = asyncio.create_task(self._review(key, token, is_new=session is None))
            self._reviewing[key] = task
            task.add_done_callback(partial(self._reviewed, key))
        # Whoever gives up waiting does not spoil it for others with the same token.
        return await asyncio.shield(self._reviewing[key])

    def forget(self, token: str) -> None:
        """Ask the API server again when a token is shown the next time."""
        self._sessions.drop(digest(token.encode()))

    def _reviewed(self, key: bytes, task: asyncio.Task[SignedInVisitor]) -> None:
        del self._reviewing[key]
        if not task.cancelled():
            # Nobody may be left who waits for it.
            task.exception()

    async def _review(self, key: bytes, token: str, *, is_new: bool) -> SignedInVisitor:
        """Ask the API server who somebody is, and whether they may look; raises `AccessRefused`."""
        self._sessions.drop(key)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._at_once:
                user = await reviews.authenticate(self._api, token, audience=self._audience)
                may_look = await reviews.allowed(self._api, user, LOOK)
                everywhere = may_look and await reviews.allowed(self._api, user, _pods())
        except UnknownToken as error:
            self._refused(SignIn.UNKNOWN, error=error)
            raise SignInRequired(f"{_sentence(error)} It may have expired: create a new one.") from error
        except (ClusterError, TimeoutError) as error:
            self._sign_ins.labels(SignIn.UNAVAILABLE).inc()
            self._unreviewed(error)
            raise CannotTell(
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
        """Return whether a user may list pods in a namespace; raises `ClusterError` and `TimeoutError`."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), self._at_once:
                return await reviews.allowed(self._api, user, _pods(namespace))
        except (ClusterError, TimeoutError) as error:
            self._unreviewed(error)
            raise

    def _unreviewed(self, error: ClusterError | TimeoutError) -> None:
        late = isinstance(error, TimeoutError)
        self._log.warning("map.review_failed", error="the API server did not answer" if late else error)

    def _refused(self, result: SignIn, **fields: object) -> None:
        self._sign_ins.labels(result).inc()
        self._log.info("map.sign_in_failed", reason=str(result), **fields)


def _pods(namespace: str = "") -> Permission:
    return Permission("list", "pods", namespace=namespace)


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


# What browsers keep, and what programs send.


def is_secure(request: web.Request) -> bool:
    """Return whether the browser speaks TLS, with us or with what stands before us."""
    return request.secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def shown_token(request: web.Request) -> str | None:
    """Return the token that a request shows: that of its header, or else that of its cookie."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE)


def has_cookie(request: web.Request) -> bool:
    """Return whether it is a cookie that lets a browser in, and not a header of what stands before us."""
    shown = "Authorization" in request.headers
    return not shown and (SECURE_COOKIE if is_secure(request) else COOKIE) in request.cookies


def keep_token(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Have the browser show a token from now on, to this server and to no script."""
    secure = is_secure(request)
    name = SECURE_COOKIE if secure else COOKIE
    response.set_cookie(name, token, path="/", httponly=True, samesite="Strict", secure=secure)


def drop_token(request: web.Request, response: web.StreamResponse) -> None:
    """Have the browser forget it."""
    secure = is_secure(request)
    name = SECURE_COOKIE if secure else COOKIE
    response.del_cookie(name, path="/", httponly=True, samesite="Strict", secure=secure)
