"""
An API server in this process, for unit tests; what needs admission or the owners of fields takes a real one.

    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        async with api.client() as client:
            await client.get("/api/v1/nodes/a", what="node a")

Each change makes a new resource version; lists come in pages. Tests can cause faults at any moment: refusals,
nonsense, silence, compacted history, watches that break, restarts. As a program of its own,
`python -m tools.clusters.fake_api OBJECTS PORT` serves a list of objects until it is killed.
"""

import asyncio
import copy
import re
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import reduce
from http import HTTPStatus
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import orjson
from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from numalign.kube.client import Api

Json = dict[str, Any]
Where = str | tuple[str, str]
"""A path, or a verb and a path."""

KINDS = {
    "/api/v1/nodes": "Node",
    "/api/v1/namespaces": "Namespace",
    "/api/v1/pods": "Pod",
    "/api/v1/events": "Event",
    "/api/v1/secrets": "Secret",
    "/api/v1/configmaps": "ConfigMap",
    "/apis/coordination.k8s.io/v1/leases": "Lease",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
    "/apis/apps/v1/replicasets": "ReplicaSet",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "ClusterRole",
    "/apis/wgpolicyk8s.io/v1alpha2/policyreports": "PolicyReport",
    "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports": "ClusterPolicyReport",
    "/apis/resource.k8s.io/v1/deviceclasses": "DeviceClass",
    "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies": "Numatopology",
    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies": "NodeResourceTopology",
    "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies": "NodeResourceTopology",
}
"""The kinds that are served, by the paths of their collections."""

NAMESPACED = {"Pod", "Event", "Secret", "ConfigMap", "Lease", "ReplicaSet", "PolicyReport"}
APPLY = "application/apply-patch+yaml"
PATCHES: Mapping[str, Mapping[str, str]] = {
    "application/merge-patch+json": {},
    "application/strategic-merge-patch+json": {"webhooks": "name", "schedulingGates": "name"},
}
"""The lists that are merged by a key of their items, by the content types of patches."""

FIRST_VERSION = 1000
FORGET_SECONDS = 5
VIEWERS = {f"token-of-viewer-{number}": f"user-{number}" for number in range(64)}
"""The users that the program knows, by their tokens."""


@dataclass(frozen=True, slots=True)
class Received:
    """A received request; `body` is None if there was none."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    content_type: str = ""

    @property
    def verbs(self) -> set[str]:
        """The method, and `WATCH`, `LIST`, `NEXT` (of its later pages) or `APPLY` (without force)."""
        found = _PATH.fullmatch(self.path)
        many = self.method == "GET" and found and not found["name"]
        verbs = {
            "WATCH": many and "watch" in self.query,
            "LIST": many and "watch" not in self.query,
            "NEXT": "continue" in self.query,
            "APPLY": self.query.get("force") == "false",
        }
        return {self.method, *filter(verbs.get, verbs)}


class Failure(Exception):
    """Raised to answer with a Status of this code and message."""


def require(right: object, code: int, message: str) -> None:
    if not right:
        raise Failure(code, message)


class Place(NamedTuple):
    """The meaning of a path: all objects of a collection, those of a namespace, or one."""

    collection: str
    namespace: str
    name: str

    @property
    def kind(self) -> str:
        return KINDS[self.collection]

    @property
    def version(self) -> str:
        return self.collection.split("/", 2)[2].rpartition("/")[0]

    def includes(self, other: Self, found: Json, selector: str) -> bool:
        """Return whether it includes an object, which has a value at a path (`spec.nodeName=a`)."""
        path, _, value = selector.partition("=")
        seen: Any = reduce(lambda at, key: at.get(key) or {}, path.split("."), found)
        within = other.collection == self.collection and self.namespace in {"", other.namespace}
        return within and (not path or seen == value)

    def __str__(self) -> str:
        return f'{self.collection.rpartition("/")[2]} "{self.name}"'


@dataclass(slots=True, eq=False)
class Watch:
    """An open watch. A `deaf` one receives nothing any more, as if its network had failed."""

    place: Place
    query: Mapping[str, str]
    request: web.Request
    lines: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    deaf: bool = False

    def includes(self, other: Place, found: Json) -> bool:
        return self.place.includes(other, found, self.query.get("fieldSelector", ""))


@dataclass
class FakeApi:
    """Stores objects, and serves them inside `async with`. Changed attributes apply from the next request."""

    token: str | None = None
    """The token that every request must have; None allows all requests."""
    people: dict[str, str] = field(default_factory=dict)
    """User names by token, for token and access reviews; these users may do everything."""
    page: int = 500
    """The most objects on one page of a list with a limit."""
    failures: dict[Where, HTTPStatus] = field(default_factory=dict)
    """Statuses to answer instead."""
    oddities: dict[str, bytes] = field(default_factory=dict)
    """Bytes to answer with 200 for every request, by path; no watches are opened there."""
    documents: dict[str, Json] = field(default_factory=dict)
    """Documents to answer for a GET besides objects, by path (`/api/v1/nodes/a/proxy/configz`)."""
    hung: set[str] = field(default_factory=set)
    """Paths whose requests get no answer while they are in this set."""
    silent: bool = False
    """Whether nothing is sent to watches; those that miss something stay deaf."""
    requests: list[Received] = field(default_factory=list)
    """All received requests."""
    version: int = FIRST_VERSION
    """The resource version of the last change."""
    port: int = 0
    """The port to listen on; 0 takes a free one, and keeps it from then on."""
    url: str = ""

    def __post_init__(self) -> None:
        self._objects: dict[Place, Json] = {}
        self._history: list[tuple[int, Place, Json, bytes]] = []
        self._compacted = self.version
        self._pages: dict[str, tuple[int, list[Json]]] = {}
        self._watches: list[Watch] = []
        self._runner: web.AppRunner | None = None

    # Objects, for tests.

    def put(self, made: Json) -> Json:
        """Create or replace an object, and return it as it is stored."""
        version, metadata = made["apiVersion"], made["metadata"]
        above = f"/api{'s' if '/' in version else ''}/{version}/"
        [path] = [path for path, kind in KINDS.items() if path.startswith(above) and kind == made["kind"]]
        namespace = metadata.get("namespace", "default") if made["kind"] in NAMESPACED else ""
        return copy.deepcopy(self._store(Place(path, namespace, metadata["name"]), made))

    def get(self, path: str) -> Json | None:
        """Return the object at a path; None if there is none."""
        return copy.deepcopy(self._objects.get(place_of(path)))

    def delete(self, path: str) -> None:
        """Delete the object at a path, if there is one."""
        if (place := place_of(path)) in self._objects:
            self._remove(place)

    def all(self, path: str) -> list[Json]:
        return copy.deepcopy(self._listed(place_of(path)))

    def received(self, verb: str, path: str) -> list[Received]:
        return [each for each in self.requests if each.path == path and verb in each.verbs]

    # Faults.

    def compact(self) -> None:
        """Delete the history: earlier versions are too old for watches, and unfinished lists have expired."""
        self._compacted = self.version
        self._history.clear()
        self._pages.clear()

    def cut(self, *, last: bytes = b"") -> None:
        """Break all watches, after some `last` bytes; unsent lines are lost."""
        for watch in self._watches:
            watch.deaf, watch.lines = True, asyncio.Queue()
            if transport := watch.request.transport:
                if last:
                    transport.write(b"%x\r\n%s\r\n" % (len(last), last))
                transport.close()

    def push(self, kind: str, sent: bytes | None) -> None:
        """Send any bytes to all watches of a kind (`Node`); None ends them properly, as by their timeout."""
        for watch in self._watches:
            if watch.place.kind == kind:
                self._send(watch, sent)

    def watching(self, kind: str) -> int:
        """Return how many watches of a kind are open and not deaf."""
        return sum(watch.place.kind == kind and not watch.deaf for watch in self._watches)

    # The server.

    async def start(self) -> Self:
        """Start to listen, at the same port as before, if any, unless it listens."""
        if self._runner:
            return self
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        self._socket = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(self._runner, self._socket).start()
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    __aenter__ = start

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

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

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Api]:
        """Yield a client of this server; its namespace is `default`."""
        configuration = Configuration(host=self.url, api_key={"BearerToken": f"Bearer {self.token}"})
        async with ApiClient(configuration) as client:
            yield Api(client, namespace="default")

    def kubeconfig(self, path: Path, *, namespace: str | None = "default") -> Path:
        """Write a kubeconfig for this server, and return its path; its context can be without a namespace."""
        context = {"cluster": "c", "user": "u", "namespace": namespace or ""}
        content = {
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
        received = Received(request.method, request.path, dict(request.query), body, request.content_type)
        self.requests.append(received)
        while received.path in self.hung:  # noqa: ASYNC110  tests change the set
            await asyncio.sleep(0.01)
        try:
            given = request.headers.get("Authorization")
            require(not self.token or given == f"Bearer {self.token}", 401, "Unauthorized")
            keys: list[Where] = [received.path, *((verb, received.path) for verb in received.verbs)]
            for key in keys:
                require(key not in self.failures, self.failures.get(key, 0), f"as set for {received.path}")
            return await self._answered(request, received)
        except Failure as failure:
            code, message = failure.args
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
            reason = HTTPStatus(code).phrase.replace(" ", "")
            return web.json_response({**status, "reason": reason, "code": code}, status=code)

    async def _answered(self, request: web.Request, received: Received) -> web.StreamResponse:
        path, method, body = received.path, received.method, received.body
        if path in self.oddities:
            return web.Response(body=self.oddities[path], content_type="application/json")
        if path in self.documents and method == "GET":
            return web.json_response(self.documents[path])
        if path.endswith("reviews"):
            return web.json_response(self._review(body), status=HTTPStatus.CREATED)
        place = place_of(path)
        if "WATCH" in received.verbs:
            return await self._watch(Watch(place, received.query, request))
        created = method == "POST" or (method == "PATCH" and place not in self._objects)
        match method:
            case "GET":
                found = self._existing(place) if place.name else self._list(place, received.query)
            case "DELETE":
                self._existing(place, (body or {}).get("preconditions"))
                found = self._remove(place)
            case "POST" if body["kind"] in {"Binding", "Eviction"}:
                found = self._act(place, body)
            case _:
                found = self._write(place, received)
        return web.json_response(found, status=HTTPStatus.CREATED if created else HTTPStatus.OK)

    def _review(self, review: Json) -> Json:
        """Answer a review of a token, or of the access of a user; reviews are not stored."""
        spec = review["spec"]
        user = self.people.get(spec.get("token"))
        allowed = {"allowed": spec.get("user") in self.people.values()}
        return {**review, "status": {**allowed, "authenticated": bool(user), "user": {"username": user}}}

    def _list(self, place: Place, query: Mapping[str, str]) -> Json:
        items, version = self._listed(place, query.get("fieldSelector", "")), self.version
        if token := query.get("continue"):
            # Later pages show the objects as of the first one.
            version, items = self._pages.get(token, (0, []))
            require(version, 410, "The provided continue parameter is too old to display a consistent list.")
        limit = int(query.get("limit", 0))
        size = min(limit, self.page) if limit else len(items)
        metadata = {"resourceVersion": str(version)}
        if items[size:]:
            metadata["continue"] = str(uuid.uuid4())
            self._pages[metadata["continue"]] = version, items[size:]
        # Items have no kind of their own.
        bare = [{key: each[key] for key in each.keys() - {"kind", "apiVersion"}} for each in items[:size]]
        return {"kind": f"{place.kind}List", "apiVersion": place.version, "metadata": metadata, "items": bare}

    def _write(self, place: Place, received: Received) -> Json:
        """Create, replace or patch an object, and return it as stored; an apply only adds fields."""
        body, how = received.body, received.content_type
        if received.method != "PATCH" or how == APPLY:
            metadata = body["metadata"]
            given = body["apiVersion"], body["kind"], metadata.get("namespace", place.namespace)
            same = given == (place.version, place.kind, place.namespace)
            require(same and place.name in {"", metadata["name"]}, 400, f"this is not the object {place}")
        if received.method == "POST":
            place = place._replace(name=body["metadata"]["name"])
            require(place not in self._objects, 409, f"{place} already exists")
            return self._store(place, body)
        if how == APPLY:
            return self._store(place, merged(self._objects.get(place), body))
        before = self._existing(place)
        if received.method == "PATCH":
            require(how in PATCHES, 415, f"the body of the request was in an unknown format: {how}")
            body = merged(before, body, PATCHES[how])
        metadata, kept = body["metadata"], before["metadata"]
        require(metadata.get("uid", kept["uid"]) == kept["uid"], 422, "metadata.uid: field is immutable")
        same = metadata.get("resourceVersion") == kept["resourceVersion"]
        require(same, 409, f"Operation cannot be fulfilled on {place}: the object has been modified")
        return self._store(place, body)

    def _act(self, place: Place, body: Json) -> Json:
        """Bind a pod, with the annotations of the binding, or evict it: it stays until a test deletes it."""
        metadata = body["metadata"]
        pod = self._existing(place, {"uid": metadata.get("uid")})
        change: Json = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        if body["kind"] == "Binding":
            require(not pod.get("spec", {}).get("nodeName"), 409, f"{place} is already assigned to a node")
            annotations = metadata.get("annotations") or {}
            change = {"metadata": {"annotations": annotations}, "spec": {"nodeName": body["target"]["name"]}}
        self._store(place, merged(pod, change))
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    # Watches.

    async def _watch(self, watch: Watch) -> web.StreamResponse:
        since = int(watch.query["resourceVersion"])
        require(since <= self.version, 504, f"Too large resource version: {since}, current: {self.version}")
        require(since >= self._compacted, 410, f"too old resource version: {since} ({self._compacted})")
        for version, place, found, event in self._history:
            if version > since and watch.includes(place, found):
                self._send(watch, event)
        self._watches.append(watch)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        try:
            await answer.prepare(watch.request)
            async with asyncio.timeout(float(watch.query.get("timeoutSeconds", 1800))):
                while (sent := await watch.lines.get()) is not None:
                    await answer.write(sent)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self._watches.remove(watch)
        return answer

    def _send(self, watch: Watch, sent: bytes | None) -> None:
        """Send some bytes, unless the watch is deaf; None ends it properly."""
        watch.deaf = watch.deaf or self.silent
        if not watch.deaf:
            watch.lines.put_nowait(sent)

    # The store.

    def _listed(self, place: Place, selector: str = "") -> list[Json]:
        found = sorted(self._objects.items(), key=itemgetter(0))
        return [each for at, each in found if place.includes(at, each, selector)]

    def _existing(self, place: Place, preconditions: Json | None = None) -> Json:
        require(place in self._objects, 404, f"{place} not found")
        found = self._objects[place]
        for name, value in (preconditions or {}).items():
            wrong = f"the {name} in the precondition ({value}) does not match the {name} in record"
            require(not value or value == found["metadata"][name], 409, wrong)
        return found

    def _store(self, place: Place, made: Json) -> Json:
        """Store an object and notify watches, unless nothing changes; return the stored object."""
        before = self._objects.get(place)
        born = {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": ""}
        kept = before["metadata"] if before else born
        stored = copy.deepcopy(made)
        stored["metadata"] |= {"name": place.name, **{key: kept[key] for key in born}}
        if place.namespace:
            stored["metadata"]["namespace"] = place.namespace
        if stored == before:
            return before
        self._objects[place] = stored
        return self._changed("MODIFIED" if before else "ADDED", place, stored)

    def _remove(self, place: Place) -> Json:
        return self._changed("DELETED", place, copy.deepcopy(self._objects.pop(place)))

    def _changed(self, how: str, place: Place, found: Json) -> Json:
        """Give an object a new version, and notify watches."""
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        sent = line(how, found)
        self._history.append((self.version, place, copy.deepcopy(found), sent))
        for watch in self._watches:
            if watch.includes(place, found):
                self._send(watch, sent)
        return found


def line(how: str, found: Json) -> bytes:
    """Return an event as a line of a watch."""
    return orjson.dumps({"type": how, "object": found}) + b"\n"


def place_of(path: str) -> Place:
    """Return the meaning of a path; raise `Failure` if its kind is unknown."""
    found = _PATH.fullmatch(path)
    collection = f"{found['above']}/{found['plural']}" if found else ""
    if not found or collection not in KINDS:
        raise Failure(404, "404 page not found")
    return Place(collection, found["namespace"] or "", found["name"] or "")


def merged(before: Any, change: Any, lists: Mapping[str, str] = MappingProxyType({})) -> Any:  # noqa: ANN401  JSON
    """Return the document after a merge patch (RFC 7396); items of some `lists` are merged by a key."""
    if not isinstance(change, dict):
        return change
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            after.pop(key, None)
        elif key in lists and isinstance(value, list):
            by = lists[key]
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


async def main(objects: Iterable[Json], port: int) -> None:
    """Serve objects until killed."""
    async with FakeApi(port=port, people=VIEWERS) as api:
        for each in objects:
            api.put(each)
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            # Open watches continue; watches of earlier versions are refused, so their clients list again.
            api.requests.clear()
            api.compact()


_PATH = re.compile(
    r"(?P<above>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(/(?P<name>[^/]+)(/(binding|eviction))?)?"
)

if __name__ == "__main__":
    listed, at = sys.argv[1:]
    asyncio.run(main(orjson.loads(Path(listed).read_bytes())["items"], int(at)))
