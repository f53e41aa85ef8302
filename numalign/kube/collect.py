"""
A snapshot of a running cluster, through the user's kubeconfig.

Fetched objects are cut down at once to what the decoders read: snapshots are passed on, and should contain
neither the environment of a container nor the images on a node.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote

from numalign.kube import configz, installation, installed_versions, kinds
from numalign.kube.client import Api, connected
from numalign.kube.configz import Progress
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.kube.decode import shapes
from numalign.kube.decode.nrt import GROUP
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Forbidden, Gone, NotFound, Unreachable
from numalign.kube.kinds import Collection, Object
from numalign.kube.live_feed import OF_SOME
from numalign.kube.resource_types import POD, ResourceType

PAGE = 500
"""Objects per page, as kubectl requests them."""


async def collect(
    connection: Connection = FROM_KUBECONFIG,
    *,
    with_pods: bool = False,
    kubelets: Progress | None = None,
    left_out: Callable[[str, ClusterError], object] = lambda _what, _error: None,
) -> Object:
    """Return the cluster as a v1 `List`, as `snapshot.of` and a snapshot file have it.

    Optional kinds that the user may not read are reported to `left_out`. `client.connected` says which
    cluster is used. With a listener `kubelets`, the kubelets are asked too. Raise `ClusterError`.
    """
    async with connected(connection) as api:
        with _advised():
            nodes = await _list(api, kinds.NODES_IN_FILES)
            items = [*nodes]
            items += await _list_topologies(api, left_out)
            items += await _list(api, kinds.NAMESPACES)
            items += await _list(api, kinds.PODS_IN_FILES) if with_pods else []
        items += await _remembered(api, left_out)
        for versions in OF_SOME:
            items += await _if_served(api, versions, left_out)
        with suppress(ClusterError):
            items.append(await installed_versions.server(api))
        if kubelets:
            names = [node["metadata"]["name"] for node in nodes]
            items += await configz.configurations(api, names, kubelets)
    return {"apiVersion": "v1", "kind": "List", "items": items}


async def _remembered(api: Api, left_out: Callable[[str, ClusterError], object]) -> list[Object]:
    """Return the ConfigMap of the remembered shapes, if numalign is installed."""
    try:
        place = await installation.namespace(api)
        data = await installation.config_map(api, place, shapes.NAME) if place else None
    except NotFound:
        return []
    except ClusterError as error:
        left_out(f"{shapes.KIND} {shapes.NAME}", error)
        return []
    metadata = {"name": shapes.NAME, "namespace": place}
    described = {"apiVersion": "v1", "kind": shapes.KIND, "metadata": metadata, "data": data}
    return [described] if data else []


async def _if_served(
    api: Api, versions: Sequence[Collection], left_out: Callable[[str, ClusterError], object]
) -> list[Object]:
    """Return objects in the newest served version; none in clusters without this kind."""
    try:
        return await _list_first(api, versions)
    except NotFound:
        return []
    except ClusterError as error:
        left_out(versions[0].plural, error)
        return []


async def one(
    type_: ResourceType,
    name: str,
    *,
    namespace: str | None = None,
    connection: Connection = FROM_KUBECONFIG,
) -> Object:
    """Return one object as stored, a pod or a workload; raise `ClusterError` if that fails.

    `namespace` None means the one of the context, or else `default`.
    """
    async with connected(connection) as api:
        where = namespace or api.namespace
        what = f"{type_.singular} {where}/{name}"
        with _advised():
            version = type_.version or await _preferred_version(api, type_, what=what)
            path = f"{type_.path(version, quote(where, safe=''))}/{quote(name, safe='')}"
            raw = await api.get(path, what=what)
    if type_ == POD:
        return kinds.PODS.described(raw)
    if not isinstance(raw, dict):
        raise Unreachable(f"the API server's answer is invalid: {what} is not an object")
    return raw


async def _preferred_version(api: Api, type_: ResourceType, *, what: str) -> str:
    """Return the preferred version of an API group in its cluster."""
    group = Part(await api.get(f"/apis/{quote(type_.group, safe='')}", what=f"the API group of {what}"))
    if version := group["preferredVersion"]["version"].text():
        return quote(version, safe="")
    raise Unreachable(f"the API server's answer is invalid: {type_.group} has no preferred version")


async def pods(connection: Connection = FROM_KUBECONFIG) -> list[Object]:
    """Return all pods, as a snapshot file has them; raise `ClusterError` if that fails."""
    async with connected(connection) as api:
        with _advised():
            return await _list(api, kinds.PODS_IN_FILES)


@contextmanager
def _advised() -> Iterator[None]:
    """Add advice to `Forbidden` on which permission is missing."""
    try:
        yield
    except Forbidden as error:
        raise Forbidden(f"{error}: {_GRANT}") from error


_GRANT = (
    "you need a ClusterRole with the verbs get and list on nodes, namespaces, pods and"
    f" noderesourcetopologies.{GROUP}, or a snapshot file from someone who has one"
)


async def _list_topologies(api: Api, left_out: Callable[[str, ClusterError], object]) -> list[Object]:
    """Return topologies in the newest served version; none if none is served."""
    with suppress(NotFound):
        return await _list_first(api, kinds.TOPOLOGIES_IN_FILES)
    left_out(kinds.TOPOLOGIES[0].plural, _NOT_SERVED)
    return []


_NOT_SERVED = NotFound(
    f"the cluster does not serve noderesourcetopologies.{GROUP}: install a topology exporter"
    " first, for example numalign's agent (agent.enabled in the chart, which also installs"
    " the CustomResourceDefinition)"
)


async def _list_first(api: Api, versions: Sequence[Collection]) -> list[Object]:
    """Return every object of a kind in the first served version; raise `NotFound` if there is none."""
    *others, last = versions
    for collection in others:
        with suppress(NotFound):
            return await _list(api, collection)
    return await _list(api, last)


async def _list(api: Api, collection: Collection) -> list[Object]:
    """Return every object of a kind, page by page."""
    items: list[Object] = []
    query: list[tuple[str, str]] = [("limit", str(PAGE))]
    what = f"the list of {collection.plural}"
    while True:
        try:
            page = await api.get(collection.path, query, what=what)
        except Gone:
            if not query or "continue" not in dict(query):
                raise
            # The next page has expired; only all objects at once are one consistent state of the cluster.
            items, query = [], []
            continue
        part = Part(page)
        items += [collection.described(part.value) for part in part["items"].objects()]
        following = part["metadata"]["continue"].text()
        if part.mistakes:
            raise Unreachable(f"the API server's answer is invalid: {what}: {part.mistakes[0]}")
        if not following:
            return items
        query = [("limit", str(PAGE)), ("continue", following)]
