"""
Check with two pods, created as a dry run, whether API servers send pods to the admission webhook.

One requests a policy that does not exist, which the webhook denies whatever it knows of the nodes. The other
requests best-effort alignment, which every node allows.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from numalign.kube.client import ObjectWriter
from numalign.kube.errors import ClusterError
from numalign.model.intent import POLICY, Policy

INTERVAL = 2.0
"""Seconds between two tries: API servers notice a new webhook, and new roles, within a second or two."""

_DENIAL = re.compile(r'admission webhook "([a-z0-9.-]+\.numalign\.io)" denied the request')


class ProbeOutcome(StrEnum):
    """The outcome for a pod; `FAILED` if it was not created for any reason but numalign."""

    ADMITTED = "admitted"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProbedPod:
    """A pod with this policy, its outcome, and the outcome in a working installation.

    `detail` is the webhook that denied it, or the error if it failed.
    """

    policy: str
    expected: ProbeOutcome
    outcome: ProbeOutcome
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Return whether the outcome is the expected one."""
        return self.outcome is self.expected


EXPECTED: Mapping[str, ProbeOutcome] = MappingProxyType(
    {"no-such-policy": ProbeOutcome.DENIED, Policy.BEST_EFFORT: ProbeOutcome.ADMITTED}
)
"""The policies of the pods, with the expected outcomes."""


async def probe(api: ObjectWriter, *, namespace: str, patience: float) -> Sequence[ProbedPod]:
    """Return the outcomes of both pods; retry for `patience` seconds until they are as expected."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    while True:
        probed: list[ProbedPod] = []
        for policy, expected in EXPECTED.items():
            outcome, detail = ProbeOutcome.ADMITTED, ""
            try:
                await api.create(
                    path, _pod(policy), (("dryRun", "All"),), what=f"pods in namespace {namespace}"
                )
            except ClusterError as error:
                denial = _DENIAL.search(str(error))
                outcome = ProbeOutcome.DENIED if denial else ProbeOutcome.FAILED
                detail = denial[1] if denial else str(error)
            probed.append(ProbedPod(policy, expected, outcome, detail))
        if all(pod.passed for pod in probed) or loop.time() + INTERVAL > until:
            return probed
        await asyncio.sleep(INTERVAL)


def _pod(policy: str) -> dict[str, Any]:
    """Return a pod that every Pod Security level allows, and whose image is never pulled."""
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
