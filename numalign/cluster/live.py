"""
A snapshot of a running cluster, through the kubeconfig of whoever asks.

What is fetched is cut down at once to what the decoders read: a snapshot gets sent around, and neither the
environment of a container nor the images on a node belong in it. Every way in which a cluster can refuse or
fail is mapped here, in one place, onto a sentence that says what to do.

    ClusterError
    ├── Unconfigured   the kubeconfig does not say which cluster, or who asks
    ├── Unreachable    nobody answers, nobody who can be trusted, or nothing that makes sense
    ├── Refused        the API server does not know who asks
    ├── Forbidden      it knows, and says no
    └── Missing        what was asked for is not there
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import aiohttp
import orjson
import yaml

from numalign.cluster.parts import Part
from numalign.cluster.topologies import GROUP, VERSIONS

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

Object: TypeAlias = dict[str, Any]

PAGE = 500
"""Objects per page, as kubectl asks for them."""

TIMEOUT = aiohttp.ClientTimeout(sock_connect=10, sock_read=60)
"""Seconds to connect, and between two pieces of an answer."""

_ALL = True
# kubectl keeps whole manifests in an annotation of its own, the environment of their containers included.
_READ = ("numalign.io/", "volcano.sh/", "kai.scheduler/")
_NAMED: Mapping[str, object] = {"name": _ALL, "labels": _ALL}
_RESOURCES: Mapping[str, object] = {"requests": _ALL, "limits": _ALL}
_CONTAINERS: Mapping[str, object] = {"name": _ALL, "restartPolicy": _ALL, "resources": _RESOURCES}
_POD: Mapping[str, object] = {
    "metadata": {"name": _ALL, "namespace": _ALL, "annotations": _READ},
    "spec": {
        "nodeName": _ALL,
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
        "resources": _RESOURCES,
        "overhead": _ALL,
    },
    "status": {"phase": _ALL},
}


class ClusterError(Exception):
    """The cluster did not give what was asked for; the text says why, and what to do."""


class Unconfigured(ClusterError):
    """Raised when the kubeconfig cannot be read, or does not say which cluster or who asks."""


class Unreachable(ClusterError):
    """Raised when nobody answers, nobody who can be trusted, or nothing that makes sense."""


class Refused(ClusterError):
    """Raised when the API server does not accept the credentials."""


class Forbidden(ClusterError):
    """Raised when the API server accepts who asks, but not what is asked for."""


class Missing(ClusterError):
    """Raised when an object or a whole kind of objects is not there."""


@dataclass(frozen=True, slots=True)
class _Collection:
    """One kind of objects: where they are served, and what of them is kept."""

    kind: str
    api_version: str
    path: str
    kept: Mapping[str, object]


_NODES = _Collection(
    "Node",
    "v1",
    "/api/v1/nodes",
    {
        "metadata": _NAMED,
        "status": {"allocatable": _ALL, "capacity": _ALL, "nodeInfo": {"kubeletVersion": _ALL}},
    },
)
_NAMESPACES = _Collection("Namespace", "v1", "/api/v1/namespaces", {"metadata": _NAMED})
_PODS = _Collection("Pod", "v1", "/api/v1/pods", _POD)
_TOPOLOGIES = tuple(
    _Collection(
        "NodeResourceTopology",
        f"{GROUP}/{version}",
        f"/apis/{GROUP}/{version}/noderesourcetopologies",
        {"metadata": {"name": _ALL}, "topologyPolicies": _ALL, "attributes": _ALL, "zones": _ALL},
    )
    for version in VERSIONS
)


async def collect(
    *, kubeconfig: str | None = None, context: str | None = None, with_pods: bool = False
) -> Object:
    """The cluster as a v1 `List`, as `snapshot.of` and a snapshot file take it; raises `ClusterError`.

    `kubeconfig` None means what kubectl would use: `KUBECONFIG`, or else `~/.kube/config`.
    """
    async with _connected(kubeconfig, context) as (api, _):
        items = await _list(api, _NODES)
        items += await _list_topologies(api)
        items += await _list(api, _NAMESPACES)
        items += await _list(api, _PODS) if with_pods else []
    return {"apiVersion": "v1", "kind": "List", "items": items}


async def pod(
    name: str,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> Object:
    """One pod as it is stored, as `pods.pod` takes it; raises `ClusterError`.

    `namespace` None means the one of the context, or else `default`.
    """
    async with _connected(kubeconfig, context) as (api, usual):
        where = namespace or usual
        path = f"/api/v1/namespaces/{quote(where, safe='')}/pods/{quote(name, safe='')}"
        found = await _get(api, path, what=f"pod {where}/{name}")
    return _described(found, _PODS)


@asynccontextmanager
async def _connected(kubeconfig: str | None, context: str | None) -> "AsyncIterator[tuple[ApiClient, str]]":
    """A client, and the namespace of its context."""
    path = _existing(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
    # To import it takes a second, and a command that reads a file needs none of it.
    import kubernetes_asyncio as kubernetes  # noqa: PLC0415  as said above

    configuration = kubernetes.client.Configuration()
    try:
        # Tokens that were renewed are not written back: the file is the user's.
        loader = await kubernetes.config.load_kube_config(
            path, context=context, client_configuration=configuration, persist_config=False
        )
        api = kubernetes.client.ApiClient(configuration)
    except (kubernetes.config.ConfigException, *_BROKEN) as error:
        reason = " ".join(str(error).split()) or "a part of it is missing"
        raise Unconfigured(f"the kubeconfig {path} cannot be used: {reason}; {_ELSEWHERE}") from error
    api.user_agent = "numalign"
    async with api:
        yield api, Part(loader.current_context)["context"]["namespace"].text() or "default"


def _existing(path: str) -> str:
    """The path of one or more kubeconfigs, of which one at least is there."""
    if any(Path(each).expanduser().is_file() for each in path.split(os.pathsep) if each):
        return path
    raise Unconfigured(f"there is no kubeconfig at {path}: {_ELSEWHERE}")


async def _list_topologies(api: "ApiClient") -> list[Object]:
    """In the newest version that is served."""
    for collection in _TOPOLOGIES:
        with suppress(Missing):
            return await _list(api, collection)
    raise Missing(
        f"the cluster serves no noderesourcetopologies.{GROUP}: an exporter has to publish the zones of its "
        "nodes first, for example node-feature-discovery with its topology updater"
    )


async def _list(api: "ApiClient", collection: _Collection) -> list[Object]:
    """Every object of a kind, page by page."""
    items: list[Object] = []
    asked: list[tuple[str, object]] = [("limit", PAGE)]
    what = f"the list of {collection.path.rpartition('/')[2]}"
    while True:
        page = await _get(api, collection.path, asked, what=what)
        if page is None:
            # The next page is too old to be had; only all of them at once are one state of the cluster.
            items, asked = [], []
            continue
        whole = Part(page)
        items += [_described(part.value, collection) for part in whole["items"].objects()]
        following = whole["metadata"]["continue"].text()
        if whole.mistakes:
            raise Unreachable(f"the API server's answer makes no sense: {what}: {whole.mistakes[0]}")
        if not following:
            return items
        asked = [("limit", PAGE), ("continue", following)]


async def _get(api: "ApiClient", path: str, asked: Sequence[tuple[str, object]] = (), *, what: str) -> object:
    """What stands at a path; None if it is a page that is gone."""
    try:
        answer = await api.call_api(
            path,
            "GET",
            query_params=list(asked),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=TIMEOUT,
        )
        body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        host = api.configuration.host
        raise Unreachable(f"{host} cannot be asked: {str(error) or 'it does not answer'}") from error
    if answer.status == HTTPStatus.GONE and len(asked) > 1:
        return None
    if answer.status != HTTPStatus.OK:
        raise _error(answer.status, _message(body), what=what)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"the API server's answer makes no sense: {what} is not JSON: {error}") from error


def _error(status: int, message: str, *, what: str) -> ClusterError:
    """Why there is no answer, for the status that came in its place."""
    error, sentence = _FAILURES.get(status, (Unreachable, _NO_ANSWER))
    return error(sentence.format(status=status, message=message, what=what))


def _message(body: bytes) -> str:
    """What the API server says of a failure, in a line."""
    try:
        said = Part(orjson.loads(body))["message"].text()
    except orjson.JSONDecodeError:
        said = body.decode(errors="replace")
    return shorten(said, 200, placeholder="...") or "no reason given"


def _described(value: object, collection: _Collection) -> Object:
    """An object with its kind, cut down to what is read; lists leave the kind of their items out."""
    kept: Any = _cut(value, collection.kept)
    return {"apiVersion": collection.api_version, "kind": collection.kind, **kept}


def _cut(value: object, kept: object) -> object:
    if isinstance(kept, Mapping) and isinstance(value, list):
        return [_cut(element, kept) for element in value]
    if isinstance(kept, tuple) and isinstance(value, dict):
        return {key: text for key, text in value.items() if key.startswith(kept)}
    if isinstance(kept, Mapping) and isinstance(value, dict):
        return {key: _cut(value[key], inner) for key, inner in kept.items() if key in value}
    return value


# What the client raises for a file that is no kubeconfig, or one that names what is not there.
_BROKEN = (
    aiohttp.ClientError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    yaml.YAMLError,
)

_ELSEWHERE = "name another file or context, or read a file with --snapshot"
_GRANT = (
    "ask for a ClusterRole with the verbs get and list on nodes, namespaces, pods and "
    f"noderesourcetopologies.{GROUP}, or for a snapshot file from someone who has it"
)

_NO_ANSWER = "the API server answered {status} for {what} ({message}): try again later"
_FAILURES: Mapping[int, tuple[type[ClusterError], str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            Refused,
            "the API server does not accept your credentials ({message}): log in again, as for kubectl",
        ),
        HTTPStatus.FORBIDDEN: (Forbidden, f"you may not read {{what}} ({{message}}): {_GRANT}"),
        HTTPStatus.NOT_FOUND: (Missing, "{what} is not there ({message})"),
    }
)
