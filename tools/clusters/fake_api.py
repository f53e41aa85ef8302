"""
An API server in this process, for tests.

It stores objects like a real one, with a new resource version for each change, and answers lists in pages,
watches with events, and failures with a Status. Tests can cause the faults of real clusters at any moment:
compacted history, watches that break or fall silent, restarts of the server, a store restored from a backup.

    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        async with api.client() as client:
            await client.get("/api/v1/nodes/a", what="node a")

Sources: k8s.io/apiserver (pkg/endpoints/handlers, pkg/storage/cacher), k8s.io/apimachinery
(pkg/api/errors).
"""

import asyncio
import contextlib
import copy
import re
import socket
import tempfile
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from numalign.kube.client import Api
from tools.clusters.field_owners import FieldOwners, FieldPath

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

FIRST_VERSION = 1000
POLL_SECONDS = 0.01
TOPOLOGY = "topology.node.k8s.io"
ADMISSION = "admissionregistration.k8s.io/v1"
APPLY, MERGE, STRATEGIC = (
    f"application/{kind}" for kind in ("apply-patch+yaml", "merge-patch+json", "strategic-merge-patch+json")
)
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
UNKNOWN_MANAGER = "unknown"
"""The field manager of requests that name none."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects, and its paths."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = False

    @property
    def prefix(self) -> str:
        """The path of its API version."""
        return f"/api{'s' if '/' in self.api_version else ''}/{self.api_version}"

    @property
    def path(self) -> str:
        """The path of all its objects."""
        return f"{self.prefix}/{self.plural}"

    @property
    def custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it."""
        return self.api_version.startswith((TOPOLOGY, "wgpolicyk8s.io"))


RESOURCES = (
    Resource("Node", "v1", "nodes"),
    Resource("Namespace", "v1", "namespaces"),
    Resource("Pod", "v1", "pods", namespaced=True),
    Resource("Event", "v1", "events", namespaced=True),
    Resource("Secret", "v1", "secrets", namespaced=True),
    Resource("ConfigMap", "v1", "configmaps", namespaced=True),
    Resource("Lease", "coordination.k8s.io/v1", "leases", namespaced=True),
    Resource("MutatingWebhookConfiguration", ADMISSION, "mutatingwebhookconfigurations"),
    Resource("ValidatingWebhookConfiguration", ADMISSION, "validatingwebhookconfigurations"),
    Resource("ReplicaSet", "apps/v1", "replicasets", namespaced=True),
    Resource("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles"),
    Resource("PolicyReport", "wgpolicyk8s.io/v1alpha2", "policyreports", namespaced=True),
    Resource("ClusterPolicyReport", "wgpolicyk8s.io/v1alpha2", "clusterpolicyreports"),
    Resource("DeviceClass", "resource.k8s.io/v1", "deviceclasses"),
    Resource("Numatopology", "nodeinfo.volcano.sh/v1alpha1", "numatopologies"),
    Resource("NodeResourceTopology", f"{TOPOLOGY}/v1alpha2", "noderesourcetopologies"),
    Resource("NodeResourceTopology", f"{TOPOLOGY}/v1alpha1", "noderesourcetopologies"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A received request; `body` is None if there was none."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    content_type: str = ""


class Failure(Exception):
    """Raised to answer with a Status."""

    def __init__(self, code: int, message: str, *, cause: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.status = status(code, message, cause=cause, reason=reason)

    def answer(self) -> web.Response:
        """Return the response with the Status."""
        return web.json_response(self.status, status=self.status["code"])


@dataclass(frozen=True, slots=True)
class Place:
    """The meaning of a path: all objects of a kind, those of a namespace, one (`name`), or a `part` of one.

    Field selectors limit a list or a watch to the name `selected`, and a list to a `node` or a `phase`.
    """

    resource: Resource
    namespace: str
    name: str
    part: str = ""
    selected: str = ""
    node: str = ""
    phase: str = ""

    @property
    def key(self) -> Key:
        """The key of the object."""
        return self.namespace, self.name

    def holds(self, key: Key) -> bool:
        """Return whether the path includes an object with this key."""
        return self.namespace in ("", key[0]) and self.selected in ("", key[1])


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the history."""

    version: int
    type: str
    resource: Resource
    found: Json

    def line(self) -> bytes:
        """Return the change as a line of a watch."""
        return line(self.type, self.found)


@dataclass(slots=True)
class Watch:
    """An open watch. A `deaf` one receives nothing any more, as if its network had failed."""

    place: Place
    request: web.Request
    bookmarks: bool
    lines: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    deaf: bool = False

    def hear(self, said: bytes | None) -> None:
        """Send some bytes, unless it is deaf; None ends the watch properly."""
        if not self.deaf:
            self.lines.put_nowait(said)

    def wants(self, change: Change) -> bool:
        """Return whether the watch includes a change."""
        return self.place.resource == change.resource and self.place.holds(key_of(change.found))

    def pending(self) -> list[bytes]:
        """Remove and return the lines that were not sent yet."""
        left = []
        while not self.lines.empty():
            left.append(self.lines.get_nowait() or b"")
        return left


@dataclass
class FakeApi:
    """Stores objects, and serves them inside `async with`. Changed attributes apply from the next request."""

    token: str | None = None
    """The token that every request must have; None allows all requests."""
    people: dict[str, str] = field(default_factory=dict)
    """User names by token, for token and access reviews; these users may do everything."""
    page: int = 500
    """The most objects on one page of a list with a limit."""
    failures: dict[str | tuple[str, str], HTTPStatus] = field(default_factory=dict)
    """Statuses to answer, by path, or by method and path (`WATCH` for a watch, `LIST` for a list)."""
    oddities: dict[str, bytes] = field(default_factory=dict)
    """Bytes to answer with 200 for every request, by path; no watches are opened there."""
    documents: dict[str, Json] = field(default_factory=dict)
    """Documents to answer for a GET besides objects, by path (`/api/v1/nodes/a/proxy/configz`)."""
    hung: set[str] = field(default_factory=set)
    """Paths whose requests get no answer while they are in this set."""
    not_served: set[str] = field(default_factory=set)
    """Paths of kinds (`/api/v1/nodes`) that are not served."""
    expire_pages_after: int | None = None
    """The number of pages of a list after which the next one has expired; None if they do not expire."""
    gone_as_event: bool = False
    """Whether a watch that is too old is accepted and gets an error event, instead of the status 410."""
    silent: bool = False
    """Whether nothing is sent to watches; those that miss something stay deaf."""
    requests: list[Asked] = field(default_factory=list)
    """All received requests."""
    version: int = FIRST_VERSION
    """The resource version of the last change."""
    port: int = 0
    """The port to listen on; 0 takes a free one, and keeps it from then on."""
    url: str = ""

    def __post_init__(self) -> None:
        self._objects: dict[Resource, dict[Key, Json]] = {resource: {} for resource in RESOURCES}
        self._owners: defaultdict[tuple[Resource, Key], FieldOwners] = defaultdict(FieldOwners)
        self._history: list[Change] = []
        self._compacted = self.version
        self._pages: dict[str, tuple[int, int, list[Json]]] = {}
        self._watches: list[Watch] = []
        self._runner: web.AppRunner | None = None

    # Objects, for tests.

    def put(self, made: Json, *, manager: str = UNKNOWN_MANAGER) -> Json:
        """Create or replace an object, and return it as it is stored."""
        resource = _BY_KIND[made["apiVersion"], made["kind"]]
        metadata = made["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        return copy.deepcopy(self._store(Place(resource, namespace, metadata["name"]), made, manager))

    def get(self, path: str) -> Json | None:
        """Return the object at a path; None if there is none."""
        place = place_of(path)
        return copy.deepcopy(self._objects[place.resource].get(place.key)) if place else None

    def delete(self, path: str) -> None:
        """Delete the object at a path, if there is one."""
        place = place_of(path)
        if place and place.key in self._objects[place.resource]:
            self._remove(place)

    def all(self, path: str) -> list[Json]:
        """Return the objects of a list at a path."""
        place = place_of(path)
        return copy.deepcopy(self._listed(place)) if place else []

    def asked(self, method: str, path: str) -> list[Asked]:
        """Return the requests to a path with a method: `GET`, `LIST`, `WATCH`, `POST`, ..."""
        return [each for each in self.requests if each.path == path and method in (each.method, verb(each))]

    # Faults.

    def compact(self) -> None:
        """Delete the history: earlier versions are too old for watches, and unfinished lists have expired."""
        self._compacted = self.version
        self._history.clear()
        self._pages.clear()

    def rewind(self) -> None:
        """Restore the store from a backup: watches break, and objects get versions of long ago."""
        self.cut()
        self.version = FIRST_VERSION
        for resource in RESOURCES:
            for found in self._objects[resource].values():
                self._stamp(found)
        self.compact()

    def cut(self, *, half_line: bool = False) -> None:
        """Break all watches; unsent lines are lost, except half of the next one with `half_line`."""
        for watch in self._watches:
            pending = watch.pending() or [self._bookmark(watch.place.resource)]
            watch.deaf = True
            _break(watch.request, pending[0][: len(pending[0]) // 2] if half_line else b"")

    def end(self) -> None:
        """End all watches properly, as a server does when they time out."""
        for watch in self._watches:
            watch.hear(None)

    def bookmark(self) -> None:
        """Send a bookmark to every watch that allows them."""
        for watch in self._watches:
            if watch.bookmarks:
                self._tell(watch, self._bookmark(watch.place.resource))

    def say(self, kind: str, said: bytes) -> None:
        """Send any bytes to all watches of a kind (`Node`), with the end of the line if it is a line."""
        for watch in self._watches:
            if watch.place.resource.kind == kind:
                self._tell(watch, said)

    def watching(self, kind: str) -> int:
        """Return how many watches of a kind are open and not deaf."""
        return sum(watch.place.resource.kind == kind and not watch.deaf for watch in self._watches)

    # The server.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start to listen, at the same port as before, if any."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        self._socket = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(self._runner, self._socket).start()
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        """Break all connections, and refuse new ones; the objects stay."""
        self.cut()
        if self._runner is None:
            return
        # The runner knows a new connection only some turns of the event loop after it was accepted. If it
        # ends before, the connection stays open for ever (github.com/python/cpython/issues/109564).
        asyncio.get_running_loop().remove_reader(self._socket)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await self._runner.cleanup()
        self._runner = None

    @property
    def running(self) -> bool:
        """Whether the server listens."""
        return self._runner is not None

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Api]:
        """Yield a client of this server; its namespace is `default`."""
        configuration = Configuration(host=self.url, api_key={"BearerToken": f"Bearer {self.token}"})
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as authority:
            authority.write(_NOBODY)
            authority.flush()
            configuration.ssl_ca_cert = authority.name
            client = ApiClient(configuration)
        async with client:
            yield Api(client, namespace="default")

    def kubeconfig(self, path: Path, *, namespace: str | None = "default") -> Path:
        """Write a kubeconfig for this server, and return its path; its context can be without a namespace."""
        context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": self.token or "none"}}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }
        path.write_bytes(orjson.dumps(content))
        return path

    # Requests.

    def _review(self, asked: Asked) -> Json:
        """Answer a review of a token, or of the access of a user; reviews are not stored."""
        spec = asked.body["spec"]
        if "token" not in spec:
            status: Json = {"allowed": spec["user"] in self.people.values()}
        elif user := self.people.get(spec["token"]):
            status = {"authenticated": True, "user": {"username": user}}
        else:
            status = {"authenticated": False}
        return {**asked.body, "status": status}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = _loaded(await request.read())
        asked = Asked(request.method, request.path, dict(request.query), body, request.content_type)
        self.requests.append(asked)
        while asked.path in self.hung:  # noqa: ASYNC110  tests change the set
            await asyncio.sleep(POLL_SECONDS)
        try:
            self._let_in(request, asked)
            return await self._answered(request, asked)
        except Failure as failure:
            return failure.answer()

    def _let_in(self, request: web.Request, asked: Asked) -> None:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Failure(401, "Unauthorized")
        for key in ((verb(asked), asked.path), (asked.method, asked.path), asked.path):
            if key in self.failures:
                raise Failure(self.failures[key], f"as told for {asked.path}")

    async def _answered(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        if asked.path in self.oddities:
            return web.Response(body=self.oddities[asked.path], content_type="application/json")
        if asked.path in _REVIEWS and asked.method == "POST":
            return web.json_response(self._review(asked), status=HTTPStatus.CREATED)
        if asked.path in self.documents and asked.method == "GET":
            return web.json_response(self.documents[asked.path])
        place = place_of(asked.path)
        if place is None or place.resource.path in self.not_served:
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if selector := asked.query.get("fieldSelector"):
            of, _, value = selector.partition("=")
            limits: dict[str, Any] = {_SELECTORS[of]: value}
            place = replace(place, **limits)
        if verb(asked) == "WATCH":
            return await self._watch(request, place, asked)
        handlers: dict[tuple[str, str, bool], Callable[[Place, Asked], Json]] = {
            ("GET", "", True): lambda place, _: self._existing(place),
            ("GET", "", False): self._list,
            ("POST", "", False): self._create,
            ("PUT", "", True): self._replace,
            ("PATCH", "", True): self._apply if asked.content_type == APPLY else self._patch,
            ("DELETE", "", True): self._delete,
            ("POST", "binding", True): self._bind,
            ("POST", "eviction", True): self._evict,
        }
        handler = handlers.get((asked.method, place.part, bool(place.name)))
        if place.part and (handler is None or place.resource.kind != "Pod"):
            return web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        if handler is None:
            raise Failure(405, "the server does not allow this method here")
        applied = asked.content_type == APPLY and place.key not in self._objects[place.resource]
        found = handler(place, asked)
        return web.json_response(found, status=201 if applied or asked.method == "POST" else 200)

    def _list(self, place: Place, asked: Asked) -> Json:
        number, version, items = 0, self.version, self._listed(place)
        if token := asked.query.get("continue"):
            number, version, items = self._continued(token)
        limit = int(asked.query.get("limit", 0))
        size = min(limit, self.page) if limit else len(items)
        metadata: Json = {"resourceVersion": str(version)}
        if items[size:]:
            following = str(uuid.uuid4())
            self._pages[following] = (number + 1, version, items[size:])
            metadata |= {"continue": following, "remainingItemCount": len(items) - size}
        resource = place.resource
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        return {**head, "items": [in_list(resource, found) for found in items[:size]]}

    def _continued(self, token: str) -> tuple[int, int, list[Json]]:
        number, version, items = self._pages.get(token, (0, 0, []))
        expired = self.expire_pages_after is not None and number >= self.expire_pages_after
        if not number or expired:
            message = "The provided continue parameter is too old to display a consistent list result."
            raise Failure(410, message, reason="Expired")
        return number, version, items

    def _create(self, place: Place, asked: Asked) -> Json:
        made = _sensible(place, asked.body)
        name = made["metadata"].get("name", "")
        if not name:
            raise Failure(422, f"{place.resource.kind} is invalid: metadata.name: Required value")
        new = Place(place.resource, place.namespace, name)
        if new.key in self._objects[place.resource]:
            message = f'{_qualified(place.resource)} "{name}" already exists'
            raise Failure(409, message, reason="AlreadyExists")
        if made["metadata"].get("resourceVersion"):
            raise Failure(400, "resourceVersion should not be set on objects to be created")
        return self._store(new, made, manager_of(asked))

    def _replace(self, place: Place, asked: Asked) -> Json:
        made = _sensible(place, asked.body)
        before = self._existing(place)
        if place.resource.kind == "Lease" and not made["metadata"].get("resourceVersion"):
            raise Failure(422, "metadata.resourceVersion: Invalid value: must be specified for an update")
        _same_version(place, made, before)
        return self._store(place, made, manager_of(asked))

    def _patch(self, place: Place, asked: Asked) -> Json:
        before = self._existing(place)
        merge = {MERGE: merged, STRATEGIC: strategic}.get(asked.content_type)
        if merge is None or (merge is strategic and place.resource.custom):
            raise Failure(415, f"the body of the request was in an unknown format: {asked.content_type}")
        if not isinstance(asked.body, dict):
            raise Failure(400, "the patch is no object")
        made = _sensible(place, merge(before, asked.body))
        _same_version(place, made, before)
        if made["metadata"].get("uid") != before["metadata"]["uid"]:
            message = f'metadata.uid: Invalid value: "{made["metadata"].get("uid")}": field is immutable'
            raise Failure(422, message)
        return self._store(place, made, manager_of(asked))

    def _apply(self, place: Place, asked: Asked) -> Json:
        """Apply the fields of one manager, as server-side apply does."""
        wanted, manager = _sensible(place, asked.body), asked.query.get("fieldManager")
        if not manager:
            raise Failure(400, "fieldManager: Required value: is required for apply patch")
        objects, owners = self._objects[place.resource], self._owners[place.resource, place.key]
        before = objects.get(place.key)
        if before is None:
            return self._store(place, wanted, manager)
        conflicts = owners.conflicts(manager, before, wanted)
        if conflicts and asked.query.get("force") != "true":
            raise Failure(409, _conflict(conflicts), cause="FieldManagerConflict")
        return self._store(place, owners.applied(manager, before, wanted), manager)

    def _delete(self, place: Place, asked: Asked) -> Json:
        metadata = self._existing(place)["metadata"]
        for name, value in ((asked.body or {}).get("preconditions") or {}).items():
            if metadata[name] != value:
                message = f"the {name} in the precondition ({value}) does not match the {name} in record"
                raise Failure(409, message)
        self._remove(place)
        return SUCCESS

    def _bind(self, place: Place, asked: Asked) -> Json:
        """Bind a pod to a node, and copy the annotations of the Binding (pkg/registry/core/pod/storage)."""
        binding = asked.body if isinstance(asked.body, dict) else {}
        metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
        if (binding.get("apiVersion"), binding.get("kind")) != ("v1", "Binding"):
            raise Failure(400, "the body is no Binding of v1")
        if metadata.get("name") != place.name:
            raise Failure(400, "name in URL does not match name in Binding object")
        if not target.get("name") or target.get("kind") not in ("", None, "Node"):
            raise Failure(422, f'Binding "{place.name}" is invalid: target.name: Required value')
        pod = copy.deepcopy(self._existing(place))
        if wrong := _unbindable(pod, metadata.get("uid")):
            raise Failure(409, f'Operation cannot be fulfilled on pods/binding "{place.name}": {wrong}')
        pod.setdefault("spec", {})["nodeName"] = target["name"]
        if annotations := metadata.get("annotations"):
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | annotations
        self._store(replace(place, part=""), pod)
        return SUCCESS

    def _evict(self, place: Place, asked: Asked) -> Json:
        """Evict a pod without regard to budgets: it is being deleted, and stays until a test deletes it."""
        eviction = asked.body if isinstance(asked.body, dict) else {}
        if (eviction.get("apiVersion"), eviction.get("kind")) != ("policy/v1", "Eviction"):
            raise Failure(400, "the body is no Eviction of policy/v1")
        pod = copy.deepcopy(self._existing(place))
        metadata, wanted = pod["metadata"], (eviction.get("deleteOptions") or {}).get("preconditions") or {}
        if any(metadata.get(key) != value for key, value in wanted.items()):
            message = f'Operation cannot be fulfilled on pods "{place.name}": the precondition failed'
            raise Failure(409, message)
        metadata.setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self._store(replace(place, part=""), pod)
        return SUCCESS

    # Watches.

    async def _watch(self, request: web.Request, place: Place, asked: Asked) -> web.StreamResponse:
        gone = self._too_old(asked)
        first = [line("ERROR", gone)] if gone else self._since(place, asked)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        watch = Watch(place, request, bookmarks=asked.query.get("allowWatchBookmarks") == "true")
        self._watches.append(watch)
        for each in first:
            self._tell(watch, each)
        if gone:
            watch.hear(None)
        try:
            await answer.prepare(request)
            async with asyncio.timeout(float(asked.query.get("timeoutSeconds", 1800))):
                while (said := await watch.lines.get()) is not None:
                    await answer.write(said)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.remove(watch)
        return answer

    def _too_old(self, asked: Asked) -> Json | None:
        """Return the Status to send as an event if a watch is too old. Raise `Failure` if it is refused."""
        since = _version(asked)
        if since > self.version:
            message = f"Too large resource version: {since}, current: {self.version}"
            raise Failure(504, message, cause="ResourceVersionTooLarge")
        if not since or since >= self._compacted:
            return None
        message = f"too old resource version: {since} ({self._compacted})"
        failure = Failure(410, message, reason="Expired")
        if not self.gone_as_event:
            raise failure
        return failure.status

    def _since(self, place: Place, asked: Asked) -> Iterable[bytes]:
        """Return the changes since a version as lines; without a version, all objects as if just added."""
        since = _version(asked)
        if not since:
            return [line("ADDED", found) for found in self._listed(place)]
        changes = [change for change in self._history if change.version > since]
        return [
            change.line()
            for change in changes
            if change.resource == place.resource and place.holds(key_of(change.found))
        ]

    def _tell(self, watch: Watch, said: bytes) -> None:
        if self.silent:
            watch.deaf = True
        watch.hear(said)

    def _bookmark(self, resource: Resource) -> bytes:
        metadata = {"resourceVersion": str(self.version), "creationTimestamp": None}
        return line(
            "BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        )

    # The store.

    def _listed(self, place: Place) -> list[Json]:
        found = self._objects[place.resource]
        listed = [found[key] for key in sorted(found) if place.holds(key)]
        listed = [each for each in listed if place.node in ("", each.get("spec", {}).get("nodeName"))]
        return [each for each in listed if place.phase in ("", each.get("status", {}).get("phase"))]

    def _existing(self, place: Place) -> Json:
        found = self._objects[place.resource].get(place.key)
        if found is None:
            raise Failure(404, f'{_qualified(place.resource)} "{place.name}" not found')
        return found

    def _store(self, place: Place, made: Json, manager: str = UNKNOWN_MANAGER) -> Json:
        """Store an object and notify watches, unless nothing changes; return the stored object."""
        objects = self._objects[place.resource]
        before = objects.get(place.key)
        stored = copy.deepcopy(made)
        born = before["metadata"] if before else {"uid": str(uuid.uuid4()), "creationTimestamp": _BORN}
        stored["metadata"] |= {"name": place.name} | {key: born[key] for key in ("uid", "creationTimestamp")}
        stored["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"] if before else ""
        if place.namespace:
            stored["metadata"]["namespace"] = place.namespace
        if stored == before:
            return before
        self._owners[place.resource, place.key].wrote(manager, before, stored)
        objects[place.key] = self._stamp(stored)
        self._happened("MODIFIED" if before else "ADDED", place.resource, stored)
        return stored

    def _remove(self, place: Place) -> None:
        self._owners.pop((place.resource, place.key), None)
        gone = copy.deepcopy(self._objects[place.resource].pop(place.key))
        self._happened("DELETED", place.resource, self._stamp(gone))

    def _stamp(self, found: Json) -> Json:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        return found

    def _happened(self, what: str, resource: Resource, found: Json) -> None:
        change = Change(self.version, what, resource, copy.deepcopy(found))
        self._history.append(change)
        for watch in self._watches:
            if watch.wants(change):
                self._tell(watch, change.line())


def manager_of(asked: Asked) -> str:
    """Return the field manager of a request, `UNKNOWN_MANAGER` if it names none."""
    return asked.query.get("fieldManager", UNKNOWN_MANAGER)


def status(code: int, message: str, *, cause: str = "", reason: str = "") -> Json:
    """Return a Status as a real API server writes it."""
    details = {"causes": [{"reason": cause, "message": message}], "retryAfterSeconds": 1}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or _REASONS.get(code, HTTPStatus(code).phrase.replace(" ", "")),
        **({"details": details} if cause else {}),
        "code": code,
    }


def line(what: str, found: Json) -> bytes:
    """Return an event as a line of a watch."""
    return orjson.dumps({"type": what, "object": found}) + b"\n"


def key_of(found: Json) -> Key:
    """Return namespace and name of a stored object."""
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


def place_of(path: str) -> Place | None:
    """Return the meaning of a path; None if its kind is unknown."""
    found = _PATH.fullmatch(path)
    resource = found and _BY_PATH.get(f"{found['prefix']}/{found['plural']}")
    if not found or not resource:
        return None
    return Place(resource, found["namespace"] or "", found["name"] or "", found["part"] or "")


def in_list(resource: Resource, found: Json) -> Json:
    """Return an object as an item of a list: only custom resources repeat their kind there."""
    if resource.custom:
        return found
    return {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}


def verb(asked: Asked) -> str:
    """Return the method of a request, but `WATCH` for a watch and `LIST` for a list."""
    place = place_of(asked.path)
    if asked.method != "GET" or place is None or place.name:
        return asked.method
    return "WATCH" if asked.query.get("watch") in ("1", "true") else "LIST"


def merged(before: Any, change: Any, lists: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401  JSON
    """Return the document after a merge patch (RFC 7396); items of some `lists` are merged by a key."""
    if not isinstance(change, dict):
        return change
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        by = (lists or {}).get(key)
        if value is None:
            after.pop(key, None)
        elif by and isinstance(value, list):
            items = {each[by]: each for each in after.get(key) or []}
            for each in value:
                if each.get("$patch") == "delete":
                    items.pop(each[by], None)
                else:
                    items[each[by]] = merged(items.get(each[by]), each, lists)
            after[key] = list(items.values())
        else:
            after[key] = merged(after.get(key), value, lists)
    return after


def strategic(before: Any, change: Any) -> Any:  # noqa: ANN401  JSON
    """Return the document after a strategic merge patch."""
    return merged(before, change, _LISTS_BY)


def _sensible(place: Place, body: object) -> Json:
    """Return the object in a request's body. Raise `Failure` if it cannot be stored at a place."""
    resource = place.resource
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Failure(400, "the body of the request is no object with metadata")
    if (body.get("apiVersion"), body.get("kind")) != (resource.api_version, resource.kind):
        raise Failure(400, f"the body is no {resource.kind} of {resource.api_version}")
    if body["metadata"].get("namespace", place.namespace) != place.namespace:
        raise Failure(400, "the namespace of the object does not match the request")
    if place.name and body["metadata"].get("name") != place.name:
        raise Failure(400, "the name of the object does not match the URL")
    return body


def _same_version(place: Place, made: Json, before: Json) -> None:
    """Raise `Failure` if an object has another version than the stored one; it may have none."""
    if made["metadata"].get("resourceVersion", "") not in ("", before["metadata"]["resourceVersion"]):
        message = (
            f'Operation cannot be fulfilled on {_qualified(place.resource)} "{place.name}": the object has '
            "been modified; please apply your changes to the latest version and try again"
        )
        raise Failure(409, message)


def _unbindable(pod: Json, uid: str | None) -> str | None:
    """Return why a pod cannot be bound; None if it can."""
    metadata = pod["metadata"]
    if uid and uid != metadata["uid"]:
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
    if metadata.get("deletionTimestamp"):
        return f"pod {metadata['name']} is being deleted, cannot be assigned to a host"
    if node := pod.get("spec", {}).get("nodeName"):
        return f'pod {metadata["name"]} is already assigned to node "{node}"'
    if pod.get("spec", {}).get("schedulingGates"):
        return f"pod {metadata['name']} has non-empty .spec.schedulingGates"
    return None


def _conflict(conflicts: Iterable[tuple[FieldPath, str]]) -> str:
    """Return the message about fields of others, as k8s.io/apimachinery does (getConflictMessage)."""
    owned = defaultdict[str, list[str]](list)
    for path, manager in conflicts:
        owned[manager].append(f".{'.'.join(path)}")
    total = sum(map(len, owned.values()))
    if total == 1:
        [(manager, [path_])] = owned.items()
        return f'Apply failed with 1 conflict: conflict with "{manager}": {path_}'
    lines = ("\n- ".join((f'conflicts with "{manager}":', *owned[manager])) for manager in sorted(owned))
    return f"Apply failed with {total} conflicts: " + "\n".join(lines)


def _qualified(resource: Resource) -> str:
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.plural}.{group}" if group else resource.plural


def _loaded(body: bytes) -> Any:  # noqa: ANN401  JSON
    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return body


def _version(asked: Asked) -> int:
    written = asked.query.get("resourceVersion") or "0"
    if not written.isdigit():
        raise Failure(400, f'Invalid value: "{written}": invalid resource version')
    return int(written)


def _break(request: web.Request, said: bytes) -> None:
    """Close a connection in the middle of an answer, after some more bytes."""
    if request.transport is None:
        return
    if said:
        request.transport.write(b"%x\r\n%s\r\n" % (len(said), said))
    request.transport.close()


_TURNS = 10
_BORN = "2026-01-02T03:04:05Z"

# An authority that signed nothing. Without an authority, a new client would load all those of the system,
# which takes most of the time of a short test.
_NOBODY = """\
-----BEGIN CERTIFICATE-----
MIIBETCBt6ADAgECAgEBMAoGCCqGSM49BAMCMBExDzANBgNVBAMMBm5vYm9keTAgFw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAw
MDAwMFowETEPMA0GA1UEAwwGbm9ib2R5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEG7ZEZecZFGBcel2VaVOOQFtnggKFdwWy
mbWeelNCOXD1GoUFZH9neICV5zVXqK/5Cmi9N1PL25c8XSPYtsDZTjAKBggqhkjOPQQDAgNJADBGAiEA4AGHDvgb1CXWajG7JiS4
De+bW3oZQX6bx/skkg3OPbICIQDobZ/RiwzlowuJUABsnjZjOtJmIkL7jMNWaHqO/PQ15w==
-----END CERTIFICATE-----
"""
_REVIEWS = {
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
}
_PATH = re.compile(
    r"(?P<prefix>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(/(?P<name>[^/]+)(/(?P<part>[^/]+))?)?"
)
_BY_PATH = {resource.path: resource for resource in RESOURCES}
_BY_KIND = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
_REASONS = {422: "Invalid", 500: "InternalError", 504: "Timeout"}
"""Reasons by their codes that are not the words of HTTP."""

_LISTS_BY = {"webhooks": "name", "containers": "name", "conditions": "type", "schedulingGates": "name"}
"""Lists that a strategic merge patch merges, by the key of their items."""

_SELECTORS = {"metadata.name": "selected", "spec.nodeName": "node", "status.phase": "phase"}
"""What a field selector limits of a place, by its field."""
