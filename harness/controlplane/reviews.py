"""How often an API server called webhooks, as its own metrics tell."""

import re
from dataclasses import dataclass

from kubernetes_asyncio.client.api_client import ApiClient

_CALLS = re.compile(r"^apiserver_admission_webhook_request_total{.*} (\d+)$", re.MULTILINE)
_FORGIVEN = re.compile(r"^apiserver_admission_webhook_fail_open_count{.*} (\d+)$", re.MULTILINE)
_FAILED = re.compile(
    r'^apiserver_admission_webhook_rejection_count{.*error_type="(?!no_error).*} (\d+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Reviews:
    """How often an API server has called webhooks since it started, and how often in vain."""

    asked: int
    failed: int

    def since(self, before: "Reviews") -> "Reviews":
        """Those between two looks."""
        return Reviews(self.asked - before.asked, self.failed - before.failed)


async def reviews(api: ApiClient) -> Reviews:
    """As the API server's own metrics tell."""
    said, *_ = await api.call_api("/metrics", "GET", response_types_map={200: "str"})
    asked, forgiven, failed = (sum(map(int, counts.findall(said))) for counts in (_CALLS, _FORGIVEN, _FAILED))
    return Reviews(asked, forgiven + failed)
