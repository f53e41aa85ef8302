"""An API server that answers reviews of tokens and of rights."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numalign.kube.client import Query
from numalign.kube.errors import ClusterError
from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS

TOPOLOGIES = ("noderesourcetopologies", "")
ALL_PODS = ("pods", "")

Right = tuple[str, str]
"""A resource that may be listed, and the namespace in which; empty for all."""


@dataclass
class ReviewingApi:
    """Users by their tokens, and what they may list; changes count from the next call on."""

    users: dict[str, str] = field(default_factory=dict)
    rights: dict[str, set[Right]] = field(default_factory=dict)
    audiences: dict[str, str] = field(default_factory=dict)
    """The audience of a token; without an entry, it is the API server."""

    failure: ClusterError | None = None
    gate: asyncio.Event | None = None
    """Reviews are answered once it is set."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, token: str, user: str, *rights: Right) -> None:
        self.users[token] = user
        self.rights[user] = set(rights)

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:  # noqa: ARG002
        assert isinstance(body, dict)
        self.calls.append((path, body["spec"]))
        if self.gate:
            await self.gate.wait()
        if self.failure:
            raise self.failure
        answers = {TOKEN_REVIEWS: self._token_review, ACCESS_REVIEWS: self._access_review}
        return {"status": answers[path](body["spec"])}

    def count(self, path: str) -> int:
        return [called for called, _ in self.calls].count(path)

    def _token_review(self, spec: dict[str, Any]) -> dict[str, Any]:
        token, wanted = spec["token"], spec.get("audiences", [""])
        made_for = self.audiences.get(token, "")
        if token not in self.users or made_for not in wanted:
            return {"authenticated": False, "error": "[invalid bearer token, it is too old]"}
        user = {"username": self.users[token], "groups": ["system:authenticated"], "extra": {"k": ["v"]}}
        return {"authenticated": True, "user": user, "audiences": [made_for] if made_for else []}

    def _access_review(self, spec: dict[str, Any]) -> dict[str, Any]:
        attributes = spec["resourceAttributes"]
        rights = self.rights.get(spec["user"], set())
        everywhere = (attributes["resource"], "") in rights
        return {"allowed": everywhere or (attributes["resource"], attributes["namespace"]) in rights}


def reviewed_namespaces(api: ReviewingApi) -> Sequence[str]:
    """Return the namespaces whose pods were in a review."""
    specs = (spec["resourceAttributes"] for path, spec in api.calls if path == ACCESS_REVIEWS)
    return [spec["namespace"] for spec in specs if spec["resource"] == "pods" and spec["namespace"]]
