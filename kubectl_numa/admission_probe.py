"""Two pods, created as a dry run, show whether API servers send pods to the admission webhook.

One asks for a policy that does not exist, which the webhook denies whatever it knows of the nodes. The
other asks for alignment where it can be had, which every node can give.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote

from numalign.kube.errors import ClusterError
from numalign.model.intent import POLICY, Policy

INTERVAL = 2.0
"""Seconds between two tries: API servers follow a new webhook, and new roles, within a second or two."""

_DENIAL = re.compile(r'admission webhook "([a-z0-9.-]+\.numalign\.io)" denied the request')
_DRY_RUN = (("dryRun", "All"),)


class PodCreator(Protocol):
    """Where a pod is created; raises `ClusterError` where it is not."""

    async def create(
        self, path: str, body: object, query: Sequence[tuple[str, str]] = (), *, what: str
    ) -> object:
        """Make an object in the collection at a path."""


class ProbeOutcome(StrEnum):
    """The outcome for a pod; `FAILED` if anything but numalign kept it from being created."""

    ADMITTED = "admitted"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProbedPod:
    """A pod with this policy, the outcome, and the one that a working installation has.

    `detail` is the webhook that denied it, or the error where it failed.
    """

    policy: str
    expected: ProbeOutcome
    outcome: ProbeOutcome
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the outcome is the expected one."""
        return self.outcome is self.expected


EXPECTED: Mapping[str, ProbeOutcome] = MappingProxyType(
    {"no-such-policy": ProbeOutcome.DENIED, Policy.BEST_EFFORT: ProbeOutcome.ADMITTED}
)
"""The policies that the pods ask for."""


async def probe(api: PodCreator, *, namespace: str, patience: float) -> Sequence[ProbedPod]:
    """Both pods, tried again for so many seconds until the outcome is the expected one."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while True:
        probed = [await _probed(api, namespace, policy) for policy in EXPECTED]
        if all(pod.passed for pod in probed) or loop.time() + INTERVAL > until:
            return probed
        await asyncio.sleep(INTERVAL)


async def _probed(api: PodCreator, namespace: str, policy: str) -> ProbedPod:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    expected = EXPECTED[policy]
    try:
        await api.create(path, _pod(policy), _DRY_RUN, what=f"pods in namespace {namespace}")
    except ClusterError as error:
        if denial := _DENIAL.search(str(error)):
            return ProbedPod(policy, expected, ProbeOutcome.DENIED, denial[1])
        return ProbedPod(policy, expected, ProbeOutcome.FAILED, str(error))
    return ProbedPod(policy, expected, ProbeOutcome.ADMITTED)


def _pod(policy: str) -> dict[str, Any]:
    """A pod that namespaces of every Pod Security level take, and whose image is never pulled."""
    container = {
        "name": "probe",
        "image": "numalign.invalid/probe",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"numalign-probe-{policy}", "annotations": {POLICY: str(policy)}},
        "spec": {
            "containers": [container],
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    }
