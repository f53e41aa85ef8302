"""
Read a kubelet's configuration, version and pods.

The configuration comes from the kubelet's own port, for which nodes/configz and nodes/pods suffice from
Kubernetes 1.33 on (KEP-2862), else through the API server (nodes/proxy), or from a file where neither is
allowed. The pods come from the kubelet's own port, else from the API server by node name. Sources are tried
in this order, and the one that worked is kept until the configuration is read again. The version is the one
in the status of the Node.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import quote

import orjson

from agent import config_file
from agent.https import ApiServer, HttpsClient
from agent.lists import ITEMS, NoList, members
from agent.observation import AskingContainer, KubeletPod
from numalign.kube.decode.kubelet_config import FIELDS
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Forbidden, NotFound, Unauthorized, Unconfigured, Unreachable
from numalign.model.errors import cut
from numalign.model.resources import CPU, MEMORY, MILLI, Kind, kind
from numalign.runtime.files import Stamp, stamps
from numalign.runtime.nesting import why_not_json

T = TypeVar("T")

LONGEST_CONFIGURATION = 2**20
"""Bytes; a configuration has about 5 KiB."""
LONGEST_PODS = 2**24
"""Bytes of all pods of a node. One pod has about 10 KiB, and may have a hundred times as much. Reading them
takes three times as many bytes of the memory that the agent may use."""
LONGEST_NODE = 2**22
"""Bytes of a Node, which also lists images and custom conditions."""

_CONFIGURATION = "the kubelet's configuration"
_PODS = "the list of the kubelet's pods"


Way = Callable[[], Awaitable[T]]
"""One way to read something; raises `ClusterError`."""


class KubeletApi:
    """
    The kubelet of one node.

    `direct` is its own port and `api` the API server; each is None if it cannot be used. If `file` names a
    file with its configuration, the configuration is read only from there.
    """

    def __init__(
        self, node: str, *, direct: HttpsClient | None, api: ApiServer | None, file: Path | None = None
    ) -> None:
        self._node, self._direct, self._api, self._file = node, direct, api, file
        self._path = f"/api/v1/nodes/{quote(node, safe='')}"
        self._file_stamps: tuple[Stamp, ...] = ()
        self._file_fields: Mapping[str, object] = {}
        self._pods_way: Way[tuple[KubeletPod, ...]] | None = None

    async def configuration(self) -> Mapping[str, object]:
        """
        Return the kubelet's configuration by the names of `kubelet_config.FIELDS`, and its `version`.

        The version is missing without an API server. Raise `ClusterError` with the error of each source.
        """

        async def own(direct: HttpsClient) -> Mapping[str, object]:
            body = await _answer(direct, "/configz", LONGEST_CONFIGURATION, _CONFIGURATION)
            try:
                return _fields(orjson.loads(body))
            except orjson.JSONDecodeError as error:
                why = why_not_json(body, error)
                raise Unreachable(f"{_CONFIGURATION} is invalid: it {why}") from error

        async def proxied(api: ApiServer) -> Mapping[str, object]:
            path = f"{self._path}/proxy/configz"
            return _fields(await api.get(path, what=_CONFIGURATION, most=LONGEST_CONFIGURATION))

        self._pods_way = None
        if self._file is None:
            _, fields = await _first(self._ways(own, proxied), _CONFIGURATION)
        else:
            now = stamps((self._file,))
            # Its fields as last read, if it has not changed since.
            if now != self._file_stamps:
                self._file_fields = await config_file.read(self._file)
                self._file_stamps = now
            fields = self._file_fields
        if self._api is None:
            return fields
        what = f"node {self._node}"
        node = Part(await self._api.get(self._path, what=what, most=LONGEST_NODE))
        version = node["status"]["nodeInfo"]["kubeletVersion"].required_text()
        return _sensible(node, {**fields, "version": version}, what)

    async def pods(self) -> tuple[KubeletPod, ...]:
        """Return the node's pods, including ended ones; raise `ClusterError` with each source's error."""

        async def own(direct: HttpsClient) -> tuple[KubeletPod, ...]:
            return _pods(await _answer(direct, "/pods", LONGEST_PODS, _PODS))

        async def bound(api: ApiServer) -> tuple[KubeletPod, ...]:
            # The API server's cache suffices: the kubelet learns of its pods from there, too.
            query = (("fieldSelector", f"spec.nodeName={self._node}"), ("resourceVersion", "0"))
            return _pods(await api.read("/api/v1/pods", query, what=_PODS, most=LONGEST_PODS))

        known, self._pods_way = self._pods_way, None
        ways = self._ways(own, bound)
        self._pods_way, pods = await _first([known, *ways] if known else ways, _PODS)
        return pods

    def _ways(
        self, direct: Callable[[HttpsClient], Awaitable[T]], through: Callable[[ApiServer], Awaitable[T]]
    ) -> list[Way[T]]:
        ways: list[Way[T]] = []
        if self._direct:
            ways.append(partial(direct, self._direct))
        if self._api:
            ways.append(partial(through, self._api))
        return ways


async def _answer(direct: HttpsClient, path: str, most: int, what: str) -> bytes:
    status, body = await direct.request("GET", path, most=most)
    if status != HTTPStatus.OK:
        error = _REFUSALS.get(status, Unreachable)
        reason = cut(body.decode(errors="replace").strip(), 200)
        raise error(f"the kubelet answered {status} for {what} ({reason or 'no reason given'})")
    return body


# Annotations of pods as a kubelet lists them, and of mirror pods in the API server (types/pod_update.go).
_SOURCE, _MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"

_REFUSALS: Mapping[int, type[ClusterError]] = MappingProxyType(
    {HTTPStatus.UNAUTHORIZED: Unauthorized, HTTPStatus.FORBIDDEN: Forbidden, HTTPStatus.NOT_FOUND: NotFound}
)


async def _first(ways: Sequence[Way[T]], what: str) -> tuple[Way[T], T]:
    """Return the first way that works, and its result; raise `ClusterError` with the error of each."""
    errors: list[ClusterError] = []
    for way in ways:
        try:
            return way, await way()
        except ClusterError as error:
            errors.append(error)
    if not errors:
        raise Unconfigured(f"{what} cannot be read: set --node-address or configure an API server")
    kind_of = type(errors[-1])
    raise kind_of("; ".join(dict.fromkeys(map(str, errors)))) from errors[0]


def _fields(answer: object) -> Mapping[str, object]:
    """Return the fields of a configz response that are kept."""
    part = Part(answer)
    fields = part["kubeletconfig"].required()
    kept = {name: member.value for name, member in fields.members() if name in FIELDS}
    return _sensible(part, kept, _CONFIGURATION)


def _pods(body: bytes) -> tuple[KubeletPod, ...]:
    """Return the pods in a list, without keeping one raw object while the next one is read."""
    kind, pods = None, list[KubeletPod]()
    try:
        for name, value in members(body):
            if name == ITEMS and value is not None:
                pods.append(_pod(Part(value, f"items[{len(pods)}]")))
            kind = value if name == "kind" else kind
    except NoList as error:
        raise Unreachable(f"{_PODS} is invalid: {error}") from error
    if kind != "PodList":
        raise Unreachable(f"{_PODS} is invalid: kind: must be PodList")
    return tuple(pods)


def _pod(part: Part) -> KubeletPod:
    metadata, containers = part["metadata"], part["spec"]["initContainers"].objects()
    annotations = metadata["annotations"].text_map()
    pod = KubeletPod(
        uid=metadata["uid"].required().uid(),
        namespace=metadata["namespace"].required_text(),
        name=metadata["name"].required_text(),
        phase=part["status"]["phase"].text(),
        deleted=metadata["deletionTimestamp"].value is not None,
        # It comes from a file of its node, or is the mirror pod of such a pod in the API server.
        static=annotations.get(_SOURCE, "api") != "api" or _MIRROR in annotations,
        init_containers=tuple(each["name"].text() for each in containers if _keeps(each)),
        asking=tuple(_asking(part)),
        created=metadata["creationTimestamp"].time(),
        from_kubelet=_SOURCE in annotations,
    )
    return _sensible(part, pod, _PODS)


def _asking(pod: Part) -> Iterator[AskingContainer]:
    spec = pod["spec"]
    # Containers share the resources that a pod requests as a whole; devices are still allocated to each one.
    each_its_own = not spec["resources"].value
    guaranteed = each_its_own and pod["status"]["qosClass"].text() == "Guaranteed"
    sidecars = (each for each in spec["initContainers"].objects() if _is_sidecar(each))
    for container in (*sidecars, *spec["containers"].objects()):
        limits = _amounts(container["resources"]["limits"])
        yield AskingContainer(
            container["name"].text(),
            cpus=guaranteed and _whole(limits.get(CPU, 0)),
            memory=guaranteed and bool(limits.get(MEMORY)),
            resources=frozenset(name for name, amount in limits.items() if amount),
        )


def _keeps(init_container: Part) -> bool:
    """Return whether a container ends but may keep exclusive resources: whole CPUs, or devices."""
    if _is_sidecar(init_container):
        return False
    limits, requests = (_amounts(init_container["resources"][each]) for each in ("limits", "requests"))
    cpus = limits.get(CPU, 0)
    exclusive = _whole(cpus) and requests.get(CPU, cpus) == cpus
    return exclusive or any(amount and kind(name) is Kind.DEVICE for name, amount in limits.items())


def _amounts(listed: Part) -> Mapping[str, int]:
    """Return every resource in a list: cutting off a long list would hide all pods of the node."""
    amounts = ((name, part.amount(name)) for name, part in listed.members())
    return {name: amount for name, amount in amounts if amount is not None}


def _is_sidecar(init_container: Part) -> bool:
    return init_container["restartPolicy"].value == "Always"


def _whole(cpus: int) -> bool:
    """Return whether a container with this many millicores gets exclusive CPUs."""
    return cpus >= MILLI and cpus % MILLI == 0


def _sensible(part: Part, read: T, what: str) -> T:
    if part.mistakes:
        raise Unreachable(f"{what} is invalid: {part.mistakes[0]}")
    return read
