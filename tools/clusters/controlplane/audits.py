"""The requests to the API server, from its audit log, which it writes before it answers, and its metrics."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client.api_client import ApiClient

LOG = "audit.log"

_CALLS, _FORGIVEN, _FAILED = (
    re.compile(rf"^apiserver_admission_webhook_{name}.*}} (\d+)$", re.MULTILINE)
    for name in ("request_total{", "fail_open_count{", 'rejection_count{.*error_type="(?!no_error)')
)


@dataclass(frozen=True, slots=True)
class Use:
    """A request: what an RBAC rule must allow for it, and the code of the answer."""

    user: str
    verb: str
    group: str
    resource: str
    name: str
    namespace: str
    code: int
    at: datetime

    @property
    def writes(self) -> bool:
        return self.verb not in {"get", "list", "watch"}


def flags(folder: Path, *, users: tuple[str, ...]) -> tuple[str, ...]:
    """Write an audit policy, and return the flags of an API server that logs the requests of these users."""
    file = folder / "audit-policy.yaml"
    rules = [{"level": "Metadata", "users": list(users)}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    file.write_text(yaml.safe_dump({**policy, "rules": rules}))
    return (f"--audit-policy-file={file}", f"--audit-log-path={folder / LOG}")


def uses(folder: Path, *, user: str) -> list[Use]:
    """Return the requests of a user so far. A watch appears twice: when it starts and when it ends."""
    # The last line may be incomplete.
    lines = (folder / LOG).read_text().rpartition("\n")[0].splitlines()
    return [use for line in lines if (use := _use(json.loads(line))).user == user]


def _use(event: dict[str, Any]) -> Use:
    of = event.get("objectRef", {})
    return Use(
        user=event["user"]["username"],
        verb=event["verb"],
        group=of.get("apiGroup", ""),
        resource="/".join(filter(None, (of.get("resource"), of.get("subresource")))),
        name=of.get("name", ""),
        namespace=of.get("namespace", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
    )


async def reviews(api: ApiClient) -> tuple[int, int]:
    """Return the number of webhook calls since the API server started, and of those that failed."""
    page, *_ = await api.call_api("/metrics", "GET", response_types_map={200: "str"})
    calls, forgiven, failed = (sum(map(int, each.findall(page))) for each in (_CALLS, _FORGIVEN, _FAILED))
    return calls, forgiven + failed
