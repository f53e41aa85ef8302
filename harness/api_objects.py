"""Writes, finds and takes away objects of any kind, as a person does with kubectl."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from kubernetes_asyncio.client.api_client import ApiClient

from harness.api_requests import Answer, Json, ask, patch
from numalign.kube.client import Patch

MANAGER = "e2e"


@dataclass(frozen=True, slots=True)
class Kind:
    """Where objects of a kind are served."""

    group: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of all of them, those in a namespace, or one."""
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.group}{within}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Store:
    """All that an API server keeps, as one user may see and change it."""

    api: ApiClient
    known: dict[tuple[str, str], Kind] = field(default_factory=dict)

    async def kind(self, document: Json) -> Kind:
        """Raises `LookupError` for a kind that is not served."""
        sought = (document["apiVersion"], document["kind"])
        if sought not in self.known:
            await self._learn(document["apiVersion"])
        return self.known[sought]

    async def _learn(self, version: str) -> None:
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        served = (await ask(self.api, "GET", group)).body.get("resources", [])
        for resource in served:
            if "/" not in resource["name"]:
                verbs = frozenset(resource["verbs"])
                kind = Kind(group, resource["name"], resource["namespaced"], verbs)
                self.known[version, resource["kind"]] = kind

    async def kinds(self) -> list[Kind]:
        """All that are served, each group in its preferred version."""
        groups = (await ask(self.api, "GET", "/apis")).body["groups"]
        for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
            await self._learn(version)
        return list(self.known.values())

    async def path(self, document: Json) -> str:
        """Of one object, whether it is stored or not."""
        metadata = document["metadata"]
        return (await self.kind(document)).path(metadata.get("namespace", ""), metadata["name"])

    async def read(self, document: Json) -> Answer:
        """The object as it is stored now."""
        return await ask(self.api, "GET", await self.path(document))

    async def try_to_apply(self, document: Json, **query: str) -> Answer:
        """A server-side apply; what is refused is refused."""
        path = await self.path(document)
        return await ask(
            self.api, "PATCH", path, document, fieldManager=MANAGER, fieldValidation="Strict", **query
        )

    async def apply(self, document: Json) -> Json:
        """As above, where a refusal is a failure."""
        answer = await self.try_to_apply(document, force="true")
        assert answer.code in {HTTPStatus.OK, HTTPStatus.CREATED}, answer.body
        return answer.body

    async def replace(self, document: Json) -> None:
        """What exporters and kubelets do: create what is not there, else write the whole anew."""
        stored = await self.read(document)
        path = await self.path(document)
        if stored.code == HTTPStatus.NOT_FOUND:
            await _written(self.api, "POST", path.rpartition("/")[0], document)
            if document["kind"] == "Node":
                await make_ready(self.api, document["metadata"]["name"])
            return
        whole = document | {"metadata": _merged(stored.body["metadata"], document["metadata"])}
        whole = await _written(self.api, "PUT", path, whole)
        if "status" in document:
            await _written(self.api, "PUT", f"{path}/status", whole | {"status": document["status"]})

    async def delete(self, document: Json) -> None:
        """What is not there is gone already."""
        answer = await ask(self.api, "DELETE", await self.path(document))
        assert answer.code in {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND}, answer.body

    async def list(self, version: str, kind: str) -> list[Json]:
        """Every object of a kind, in all namespaces."""
        found = await self.kind({"apiVersion": version, "kind": kind})
        answer = await ask(self.api, "GET", found.path())
        assert answer.code == HTTPStatus.OK, answer.body
        items: list[Json] = answer.body["items"]
        return items


async def make_ready(api: ApiClient, node: str) -> None:
    """Take off the taint that an API server gives every new node, for no controller is here to do so."""
    answer = await patch(api, f"/api/v1/nodes/{node}", {"spec": {"taints": None}}, how=Patch.MERGE)
    assert answer.code == HTTPStatus.OK, answer.body


def _merged(stored: Json, wanted: Json) -> Json:
    """Labels of others stay."""
    return {**stored, **wanted, "labels": {**stored.get("labels", {}), **wanted.get("labels", {})}}


async def _written(api: ApiClient, method: str, path: str, document: Json) -> Json:
    answer = await ask(api, method, path, document)
    assert answer.code in {HTTPStatus.OK, HTTPStatus.CREATED}, answer.body
    return answer.body


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """A namespace with labels."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
