"""Writes, reads and deletes objects of any kind, as a user does with kubectl."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from tools.clusters.api_requests import Answer, Json, ask, patch

MANAGER = "e2e"


@dataclass(frozen=True, slots=True)
class Kind:
    """The path of a kind's objects, and its verbs."""

    group: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str = "", name: str = "") -> str:
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.group}{within}/{self.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Store:
    """The objects of an API server, with the rights of one user."""

    api: ApiClient
    known: dict[tuple[str, str], Kind] = field(default_factory=dict)

    async def kind(self, document: Json) -> Kind:
        """Return the kind of an object. Raise `LookupError` if it is not served."""
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
        """Return all served kinds, each group in its preferred version."""
        groups = (await ask(self.api, "GET", "/apis")).body["groups"]
        for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
            await self._learn(version)
        return list(self.known.values())

    async def path(self, document: Json) -> str:
        """Return the path of an object, which may not exist."""
        metadata = document["metadata"]
        return (await self.kind(document)).path(metadata.get("namespace", ""), metadata["name"])

    async def read(self, document: Json) -> Answer:
        """Read the object as it is stored now."""
        return await ask(self.api, "GET", await self.path(document))

    async def try_to_apply(self, document: Json, **query: str) -> Answer:
        """Apply an object on the server side, and return the answer, even if it is an error."""
        path = await self.path(document)
        return await ask(
            self.api, "PATCH", path, document, fieldManager=MANAGER, fieldValidation="Strict", **query
        )

    async def apply(self, document: Json) -> Json:
        """Apply an object on the server side, by force, and return it as stored; fail if that is refused."""
        answer = await self.try_to_apply(document, force="true")
        assert answer.code in {HTTPStatus.OK, HTTPStatus.CREATED}, answer.body
        return answer.body

    async def replace(self, document: Json) -> None:
        """Apply an object and its status, as exporters and kubelets write them; a new node becomes ready."""
        created = (await self.read(document)).code == HTTPStatus.NOT_FOUND
        stored = await self.apply(document)
        if "status" in document:
            head = {key: stored[key] for key in ("apiVersion", "kind")}
            status = {**head, "metadata": {"name": stored["metadata"]["name"]}, "status": document["status"]}
            path = f"{await self.path(document)}/status"
            answer = await ask(self.api, "PATCH", path, status, fieldManager=MANAGER, force="true")
            assert answer.code == HTTPStatus.OK, answer.body
        if created and document["kind"] == "Node":
            await make_ready(self.api, document["metadata"]["name"])

    async def delete(self, document: Json) -> None:
        """Delete an object, if it exists."""
        answer = await ask(self.api, "DELETE", await self.path(document))
        assert answer.code in {HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND}, answer.body

    async def list(self, version: str, kind: str) -> list[Json]:
        found = await self.kind({"apiVersion": version, "kind": kind})
        answer = await ask(self.api, "GET", found.path())
        assert answer.code == HTTPStatus.OK, answer.body
        items: list[Json] = answer.body["items"]
        return items


async def make_ready(api: ApiClient, node: str) -> None:
    """Remove the taints of a node: an API server adds one to new nodes, which no controller removes here."""
    answer = await patch(api, f"/api/v1/nodes/{node}", {"spec": {"taints": None}}, how=Patch.MERGE)
    assert answer.code == HTTPStatus.OK, answer.body


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
