"""The requests of users to the API server, read from its audit log, which it writes before it answers."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

LOG = "audit.log"


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
        """Whether the request can change something."""
        return self.verb not in {"get", "list", "watch"}


def flags(folder: Path, *, users: tuple[str, ...]) -> tuple[str, ...]:
    """Write an audit policy, and return the flags of an API server that logs the requests of these users."""
    policy = folder / "audit-policy.yaml"
    rules = [{"level": "Metadata", "users": list(users)}, {"level": "None"}]
    policy.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "omitStages": ["RequestReceived"],
                "rules": rules,
            }
        )
    )
    return (f"--audit-policy-file={policy}", f"--audit-log-path={folder / LOG}")


def uses(folder: Path, *, user: str) -> list[Use]:
    """Return the requests of a user so far. A watch appears twice: when it starts and when it ends."""
    # The last line may be incomplete.
    lines = (folder / LOG).read_text().rpartition("\n")[0].splitlines()
    return [use for line in lines if (use := _use(json.loads(line))).user == user]


def _use(event: dict[str, Any]) -> Use:
    asked = event.get("objectRef", {})
    resource = "/".join(filter(None, (asked.get("resource"), asked.get("subresource"))))
    return Use(
        user=event["user"]["username"],
        verb=event["verb"],
        group=asked.get("apiGroup", ""),
        resource=resource,
        name=asked.get("name", ""),
        namespace=asked.get("namespace", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
    )
