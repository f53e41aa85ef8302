"""The number of an API server's webhook calls, from its own metrics."""

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
    """The number of webhook calls since an API server started, and of those that failed."""

    asked: int
    failed: int

    def since(self, before: "Reviews") -> "Reviews":
        return Reviews(self.asked - before.asked, self.failed - before.failed)


async def reviews(api: ApiClient) -> Reviews:
    said, *_ = await api.call_api("/metrics", "GET", response_types_map={200: "str"})
    asked, forgiven, failed = (sum(map(int, counts.findall(said))) for counts in (_CALLS, _FORGIVEN, _FAILED))
    return Reviews(asked, forgiven + failed)
