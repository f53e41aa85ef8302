"""Calls the API server through kubernetes-asyncio, and returns errors as answers.

Objects are plain JSON: a test must see what the server wrote, not what a class keeps of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from multidict import CIMultiDictProxy

from numalign.kube.client import Patch

Json = dict[str, Any]

INTENT = {"numalign.io/policy": "single-numa-node"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An object or the Status of an error, and the texts of warnings."""

    code: int
    body: Json
    warnings: list[str]

    def __str__(self) -> str:
        """Return the code, the message or else the affinity, and the warnings, in a line."""
        text = self.body.get("message") or self.body.get("spec", {}).get("affinity")
        return f"{self.code} {text} {self.warnings}"


async def ask(
    api: ApiClient, method: str, path: str, body: Json | None = None, *, how: str = Patch.APPLY, **query: str
) -> Answer:
    """Send a request; `how` is the type of a PATCH."""
    headers = {"Content-Type": how} if method == "PATCH" else {}
    call = partial(api.call_api, response_types_map=dict.fromkeys((200, 201), "object"))
    parameters = list(query.items())
    try:
        content, code, answered = await call(
            path, method, body=body, query_params=parameters, header_params=headers
        )
    except ApiException as error:
        try:
            status: Json = json.loads(error.body or "{}")
        except ValueError:
            # A plain text, as for paths that are not served yet.
            status = {"message": str(error.body)}
        return Answer(error.status, status, _warnings(error.headers))
    return Answer(code, content, _warnings(answered))


async def patch(api: ApiClient, path: str, body: Json, *, how: Patch, **query: str) -> Answer:
    return await ask(api, "PATCH", path, body, how=how, **query)


def _warnings(headers: CIMultiDictProxy[str] | None) -> list[str]:
    """Return the texts of headers such as `Warning: 299 - "text"`."""
    lines = headers.getall("Warning", []) if headers else []
    return [json.loads(line.split(" ", 2)[2]) for line in lines]


def pod(name: str, *, asks: Mapping[str, str], **metadata: object) -> Json:
    """Return a guaranteed pod of one container; `asks` adds to 8 CPUs and 32 GiB, or replaces them."""
    amounts = {"cpu": "8", "memory": "32Gi", **asks}
    resources = {"requests": amounts, "limits": amounts}
    spec = {"containers": [{"name": "main", "image": "registry.example/main", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def create(api: ApiClient, wish: Json, *, namespace: str = "team", **query: str) -> Answer:
    return await ask(api, "POST", f"/api/v1/namespaces/{namespace}/pods", wish, **query)


async def rehearse(
    api: ApiClient,
    *,
    asks: Mapping[str, str],
    namespace: str = "team",
    annotations: Mapping[str, str] = INTENT,
) -> Answer:
    """Create such a pod as a dry run, and return the answer."""
    wish = pod("rehearsal", asks=asks, annotations=annotations)
    return await create(api, wish, namespace=namespace, dryRun="All")


def gpus(count: int) -> Json:
    """Return a request for so many GPUs."""
    return {"nvidia.com/gpu": str(count)}


async def read(api: ApiClient, name: str) -> Answer:
    return await ask(api, "GET", f"/api/v1/namespaces/team/pods/{name}")
