"""Who asked the API server for what: read from its audit log, which is written before it answers."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

LOG = "audit.log"


@dataclass(frozen=True, slots=True)
class Use:
    """One request: what an RBAC rule would have to allow, and how it was answered."""

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
        """Whether it would change something."""
        return self.verb not in {"get", "list", "watch"}


def flags(folder: Path, *, users: tuple[str, ...]) -> tuple[str, ...]:
    """How an API server is told to note what these users ask for."""
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
    """All that a user asked for so far. A watch stands twice, for when it began and when it ended."""
    # The last line may be on its way.
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
