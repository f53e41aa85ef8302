"""The leases of the programs, as the API server has them."""

from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from tools.clusters.http_calls import once
from tools.clusters.programs import NAMESPACE, ApiServer

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@dataclass(slots=True)
class Leases:
    """Watches who leads; `oldest` is how many seconds ago the last renewal was, at the worst look."""

    api: ApiServer
    oldest: float = 0.0

    async def look(self) -> dict[str, tuple[str, int]]:
        """By lease, its holder and how often it has changed hands."""
        found = orjson.loads((await once(self.api.door, "GET", LEASES)).body)["items"]
        now = datetime.now(UTC)
        ages = [(now - datetime.fromisoformat(each["spec"]["renewTime"])).total_seconds() for each in found]
        self.oldest = max([self.oldest, *ages])
        return {
            each["metadata"]["name"]: (each["spec"]["holderIdentity"], each["spec"]["leaseTransitions"])
            for each in found
        }
