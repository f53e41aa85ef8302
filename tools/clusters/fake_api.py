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
import copy
import re
import socket
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import orjson
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from numalign.kube.client import Api
from tools.clusters.field_owners import FieldOwners, conflict_message

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

FIRST_VERSION = 1000
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
        return f"/api{'s' if '/' in self.api_version else ''}/{self.api_version}"

    @property
    def path(self) -> str:
        return f"{self.prefix}/{self.plural}"

    @property
    def custom(self) -> bool:
        return self.api_version.startswith((TOPOLOGY, "wgpolicyk8s.io"))

    def __str__(self) -> str:
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural


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
        known = {422: "Invalid", 500: "InternalError", 504: "Timeout"}
        details = {"causes": [{"reason": cause, "message": message}], "retryAfterSeconds": 1}
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or known.get(code, HTTPStatus(code).phrase.replace(" ", "")),
            **({"details": details} if cause else {}),
            "code": code,
        }


def require(right: object, code: int, message: str) -> None:
    """Raise `Failure` if something is not right."""
    if not right:
        raise Failure(code, message)


@dataclass(frozen=True, slots=True)
class Place:
    """The meaning of a path: all objects of a kind, those of a namespace, one (`name`), or a `part` of one.

    A field selector limits a list or a watch to objects that have a value at a path (`spec.nodeName`).
    """

    resource: Resource
    namespace: str
    name: str
    part: str = ""
    field: tuple[str, str] = ("", "")

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    def holds(self, resource: Resource, found: Json) -> bool:
        """Return whether the path includes an object."""
        path, value = self.field
        seen: Any = found
        for key in filter(None, path.split(".")):
            seen = seen.get(key) or {}
        within = self.namespace in ("", found["metadata"].get("namespace", ""))
        return resource == self.resource and within and (not path or seen == value)


@dataclass(slots=True)
class Watch:
    """An open watch. A `deaf` one receives nothing any more, as if its network had failed."""

    place: Place
    request: web.Request
    bookmarks: bool
    lines: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    deaf: bool = False

    def hear(self, sent: bytes | None) -> None:
        """Send some bytes, unless it is deaf; None ends the watch properly."""
        if not self.deaf:
            self.lines.put_nowait(sent)

    def cut(self, last: bytes | None) -> None:
        """Close the connection in the middle of an answer, after some more bytes."""
        self.deaf = True
        while not self.lines.empty():
            self.lines.get_nowait()
        if self.request.transport is not None:
            if last:
                self.request.transport.write(b"%x\r\n%s\r\n" % (len(last), last))
            self.request.transport.close()


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
        self._history: list[tuple[int, Resource, Json, bytes]] = []
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
        for found in (each for objects in self._objects.values() for each in objects.values()):
            self._stamp(found)
        self.compact()

    def cut(self, *, half_line: bool = False) -> None:
        """Break all watches; unsent lines are lost. With `half_line`, half a bookmark is sent before."""
        for watch in self._watches:
            bookmark = self._bookmark(watch.place.resource)
            watch.cut(bookmark[: len(bookmark) // 2] if half_line else None)

    def end(self) -> None:
        """End all watches properly, as a server does when they time out."""
        for watch in self._watches:
            watch.hear(None)

    def bookmark(self) -> None:
        for watch in self._watches:
            if watch.bookmarks:
                self._send(watch, self._bookmark(watch.place.resource))

    def push(self, kind: str, sent: bytes) -> None:
        """Send any bytes to all watches of a kind (`Node`), with the end of the line if it is a line."""
        for watch in self._watches:
            if watch.place.resource.kind == kind:
                self._send(watch, sent)

    def watching(self, kind: str) -> int:
        """Return how many watches of a kind are open and not deaf."""
        return sum(watch.place.resource.kind == kind and not watch.deaf for watch in self._watches)

    # The server.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
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
        for _ in range(10):
            await asyncio.sleep(0)
        await self._runner.cleanup()
        self._runner = None

    @property
    def running(self) -> bool:
        """Whether the server listens."""
        return self._runner is not None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Api]:
        """Yield a client of this server; its namespace is `default`."""
        configuration = Configuration(host=self.url, api_key={"BearerToken": f"Bearer {self.token}"})
        async with ApiClient(configuration) as client:
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

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body: Any = await request.read()
        with suppress(orjson.JSONDecodeError):
            body = orjson.loads(body) if body else None
        asked = Asked(request.method, request.path, dict(request.query), body, request.content_type)
        self.requests.append(asked)
        while asked.path in self.hung:  # noqa: ASYNC110  tests change the set
            await asyncio.sleep(0.01)
        try:
            given = request.headers.get("Authorization")
            require(not self.token or given == f"Bearer {self.token}", 401, "Unauthorized")
            for key in ((verb(asked), asked.path), (asked.method, asked.path), asked.path):
                require(key not in self.failures, self.failures.get(key, 0), f"as told for {asked.path}")
            return await self._answered(request, asked)
        except Failure as failure:
            return web.json_response(failure.status, status=failure.status["code"])

    async def _answered(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        if asked.path in self.oddities:
            return web.Response(body=self.oddities[asked.path], content_type="application/json")
        if asked.path in _REVIEWS and asked.method == "POST":
            return web.json_response(self._review(asked), status=HTTPStatus.CREATED)
        if asked.path in self.documents and asked.method == "GET":
            return web.json_response(self.documents[asked.path])
        nothing = web.Response(status=HTTPStatus.NOT_FOUND, text="404 page not found\n")
        place = place_of(asked.path)
        if place is None or place.resource.path in self.not_served:
            return nothing
        path, _, value = asked.query.get("fieldSelector", "").partition("=")
        place = replace(place, field=(path, value))
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
        if handler is None:
            return nothing
        created = asked.content_type == APPLY and place.key not in self._objects[place.resource]
        found = handler(place, asked)
        return web.json_response(found, status=201 if created or asked.method == "POST" else 200)

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

    def _list(self, place: Place, asked: Asked) -> Json:
        number, version, items = 0, self.version, self._listed(place)
        if token := asked.query.get("continue"):
            number, version, items = self._pages.get(token, (0, 0, []))
            if not number or (self.expire_pages_after is not None and number >= self.expire_pages_after):
                message = "The provided continue parameter is too old to display a consistent list result."
                raise Failure(410, message, reason="Expired")
        limit = int(asked.query.get("limit", 0))
        size = min(limit, self.page) if limit else len(items)
        metadata: Json = {"resourceVersion": str(version)}
        if items[size:]:
            following = str(uuid.uuid4())
            self._pages[following] = (number + 1, version, items[size:])
            metadata |= {"continue": following, "remainingItemCount": len(items) - size}
        resource = place.resource
        # Only custom resources repeat their kind in a list.
        left_out = set() if resource.custom else {"kind", "apiVersion"}
        shown = [{key: each[key] for key in each.keys() - left_out} for each in items[:size]]
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        return {**head, "items": shown}

    def _create(self, place: Place, asked: Asked) -> Json:
        made = _sensible(place, asked.body)
        name = made["metadata"].get("name", "")
        require(name, 422, f"{place.resource.kind} is invalid: metadata.name: Required value")
        new = Place(place.resource, place.namespace, name)
        if new.key in self._objects[place.resource]:
            raise Failure(409, f'{place.resource} "{name}" already exists', reason="AlreadyExists")
        return self._store(new, made, _manager(asked))

    def _replace(self, place: Place, asked: Asked) -> Json:
        made, before = _sensible(place, asked.body), self._existing(place)
        versioned = made["metadata"].get("resourceVersion") or place.resource.kind != "Lease"
        require(versioned, 422, "metadata.resourceVersion: Invalid value: must be specified for an update")
        return self._update(place, made, before, asked)

    def _patch(self, place: Place, asked: Asked) -> Json:
        before = self._existing(place)
        merges = {MERGE: merged} if place.resource.custom else {MERGE: merged, STRATEGIC: strategic}
        unknown = f"the body of the request was in an unknown format: {asked.content_type}"
        require(asked.content_type in merges, 415, unknown)
        made = _sensible(place, merges[asked.content_type](before, asked.body))
        uid = made["metadata"].get("uid")
        same = uid == before["metadata"]["uid"]
        require(same, 422, f'metadata.uid: Invalid value: "{uid}": field is immutable')
        return self._update(place, made, before, asked)

    def _update(self, place: Place, made: Json, before: Json, asked: Asked) -> Json:
        """Store an object unless it has another version than the stored one; it may have none."""
        same = made["metadata"].get("resourceVersion", "") in ("", before["metadata"]["resourceVersion"])
        changed = (
            "the object has been modified; please apply your changes to the latest version and try again"
        )
        require(same, 409, f'Operation cannot be fulfilled on {place.resource} "{place.name}": {changed}')
        return self._store(place, made, _manager(asked))

    def _apply(self, place: Place, asked: Asked) -> Json:
        """Apply the fields of one manager, as server-side apply does."""
        wanted, manager = _sensible(place, asked.body), asked.query.get("fieldManager", "")
        require(manager, 400, "fieldManager: Required value: is required for apply patch")
        owners, before = self._owners[place.resource, place.key], self._objects[place.resource].get(place.key)
        if before is None:
            return self._store(place, wanted, manager)
        conflicts = owners.conflicts(manager, before, wanted)
        if conflicts and asked.query.get("force") != "true":
            raise Failure(409, conflict_message(conflicts), cause="FieldManagerConflict")
        return self._store(place, owners.applied(manager, before, wanted), manager)

    def _delete(self, place: Place, asked: Asked) -> Json:
        metadata = self._existing(place)["metadata"]
        for name, value in ((asked.body or {}).get("preconditions") or {}).items():
            wrong = f"the {name} in the precondition ({value}) does not match the {name} in record"
            require(metadata[name] == value, 409, wrong)
        self._remove(place)
        return SUCCESS

    def _bind(self, place: Place, asked: Asked) -> Json:
        """Bind a pod to a node, and copy the annotations of the Binding (pkg/registry/core/pod/storage)."""
        metadata, target = _sensible(place, asked.body, "v1", "Binding")["metadata"], asked.body["target"]
        valid = target.get("name") and target.get("kind") in ("", None, "Node")
        require(valid, 422, f'Binding "{place.name}" is invalid: target.name: Required value')
        pod = copy.deepcopy(self._existing(place))
        if wrong := _unbindable(pod, metadata.get("uid")):
            raise Failure(409, f'Operation cannot be fulfilled on pods/binding "{place.name}": {wrong}')
        pod.setdefault("spec", {})["nodeName"] = target["name"]
        if annotations := metadata.get("annotations"):
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | annotations
        self._store(place, pod)
        return SUCCESS

    def _evict(self, place: Place, asked: Asked) -> Json:
        """Evict a pod without regard to budgets: it is being deleted, and stays until a test deletes it."""
        options = _sensible(place, asked.body, "policy/v1", "Eviction").get("deleteOptions") or {}
        pod = copy.deepcopy(self._existing(place))
        metadata, wanted = pod["metadata"], options.get("preconditions") or {}
        same = all(metadata.get(key) == value for key, value in wanted.items())
        wrong = f'Operation cannot be fulfilled on pods "{place.name}": the precondition failed'
        require(same, 409, wrong)
        metadata.setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self._store(place, pod)
        return SUCCESS

    # Watches.

    async def _watch(self, request: web.Request, place: Place, asked: Asked) -> web.StreamResponse:
        first, goes_on = self._since(place, asked)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        watch = Watch(place, request, bookmarks=asked.query.get("allowWatchBookmarks") == "true")
        self._watches.append(watch)
        for each in first:
            self._send(watch, each)
        if not goes_on:
            watch.hear(None)
        try:
            await answer.prepare(request)
            async with asyncio.timeout(float(asked.query.get("timeoutSeconds", 1800))):
                while (sent := await watch.lines.get()) is not None:
                    await answer.write(sent)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.remove(watch)
        return answer

    def _since(self, place: Place, asked: Asked) -> tuple[Iterable[bytes], bool]:
        """Return the changes since a version as lines, and whether the watch goes on after them.

        Without a version, all objects are as if just added. Raise `Failure` if the watch is refused.
        """
        written = asked.query.get("resourceVersion") or "0"
        require(written.isdigit(), 400, f'Invalid value: "{written}": invalid resource version')
        since = int(written)
        if since > self.version:
            message = f"Too large resource version: {since}, current: {self.version}"
            raise Failure(504, message, cause="ResourceVersionTooLarge")
        if not since:
            return [line("ADDED", found) for found in self._listed(place)], True
        if since < self._compacted:
            message = f"too old resource version: {since} ({self._compacted})"
            failure = Failure(410, message, reason="Expired")
            if not self.gone_as_event:
                raise failure
            return [line("ERROR", failure.status)], False
        later = (change for change in self._history if change[0] > since)
        return [sent for _, resource, found, sent in later if place.holds(resource, found)], True

    def _send(self, watch: Watch, sent: bytes) -> None:
        watch.deaf = watch.deaf or self.silent
        watch.hear(sent)

    def _bookmark(self, resource: Resource) -> bytes:
        metadata = {"resourceVersion": str(self.version), "creationTimestamp": None}
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return line("BOOKMARK", {**head, "metadata": metadata})

    # The store.

    def _listed(self, place: Place) -> list[Json]:
        found = sorted(self._objects[place.resource].items())
        return [each for _, each in found if place.holds(place.resource, each)]

    def _existing(self, place: Place) -> Json:
        found = self._objects[place.resource].get(place.key)
        if found is None:
            raise Failure(404, f'{place.resource} "{place.name}" not found')
        return found

    def _store(self, place: Place, made: Json, manager: str = UNKNOWN_MANAGER) -> Json:
        """Store an object and notify watches, unless nothing changes; return the stored object."""
        objects = self._objects[place.resource]
        before = objects.get(place.key)
        stored = copy.deepcopy(made)
        born = {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": ""}
        kept = before["metadata"] if before else born
        stored["metadata"] |= {"name": place.name, **{key: kept[key] for key in born}}
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
        sent = line(what, found)
        self._history.append((self.version, resource, copy.deepcopy(found), sent))
        for watch in self._watches:
            if watch.place.holds(resource, found):
                self._send(watch, sent)


def line(what: str, found: Json) -> bytes:
    """Return an event as a line of a watch."""
    return orjson.dumps({"type": what, "object": found}) + b"\n"


def place_of(path: str) -> Place | None:
    """Return the meaning of a path; None if its kind is unknown."""
    found = _PATH.fullmatch(path)
    resource = found and _BY_PATH.get(f"{found['prefix']}/{found['plural']}")
    if not found or not resource or (found["part"] and resource.kind != "Pod"):
        return None
    return Place(resource, found["namespace"] or "", found["name"] or "", found["part"] or "")


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
    """Return the document after a strategic merge patch, which merges some lists by a key of their items."""
    lists = {"webhooks": "name", "containers": "name", "conditions": "type", "schedulingGates": "name"}
    return merged(before, change, lists)


def _sensible(place: Place, body: Any, version: str = "", kind: str = "") -> Json:  # noqa: ANN401  JSON
    """Return the object in a request's body. Raise `Failure` if it is of another kind or place."""
    version, kind = version or place.resource.api_version, kind or place.resource.kind
    given = isinstance(body, dict) and (body.get("apiVersion"), body.get("kind"))
    require(given == (version, kind), 400, f"the body is no {kind} of {version}")
    metadata = body.get("metadata") or {}
    within = metadata.get("namespace", place.namespace) == place.namespace
    named = place.name in ("", metadata.get("name"))
    require(within and named, 400, f"name in URL does not match name in {kind} object")
    return {**body, "metadata": metadata}


def _manager(asked: Asked) -> str:
    return asked.query.get("fieldManager", UNKNOWN_MANAGER)


def _unbindable(pod: Json, uid: str | None) -> str | None:
    """Return why a pod cannot be bound; None if it can."""
    metadata, spec = pod["metadata"], pod.get("spec", {})
    if uid and uid != metadata["uid"]:
        return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
    if metadata.get("deletionTimestamp"):
        return f"pod {metadata['name']} is being deleted, cannot be assigned to a host"
    if node := spec.get("nodeName"):
        return f'pod {metadata["name"]} is already assigned to node "{node}"'
    if spec.get("schedulingGates"):
        return f"pod {metadata['name']} has non-empty .spec.schedulingGates"
    return None


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
