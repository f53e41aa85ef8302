"""What tests of certificates share: a time that they move, pairs, and what stands in a cluster."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from certs import authority
from certs.authority import Pair
from certs.secret import SecretRef
from tools.clusters.fake_api import FakeApi

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAMES = ("numalign-webhook.numalign-system.svc",)
PLACE = SecretRef("numalign-system", "numalign-webhook-tls")
CONFIGURATION = "zz-numalign"
MUTATING = "MutatingWebhookConfiguration"
VALIDATING = "ValidatingWebhookConfiguration"

Json = dict[str, Any]


@dataclass
class Time:
    """Stands still until it is told to pass: the time of day and the seconds of a clock."""

    day: datetime = START
    seconds: float = 0.0

    def now(self) -> datetime:
        """The time of day."""
        return self.day

    def clock(self) -> float:
        """Seconds since some moment."""
        return self.seconds

    def passes(self, seconds: float) -> None:
        """Let both go on."""
        self.seconds += seconds
        self.day += timedelta(seconds=seconds)


def pair(*names: str, days: int = 30, now: datetime = START) -> Pair:
    """A pair for the service, or for other names."""
    return authority.issue(names=names or NAMES, days=days, now=now)


def secret(data: Mapping[str, bytes], *, ours: bool = True) -> Json:
    """A Secret as it stands in a cluster."""
    labels = {"app.kubernetes.io/managed-by": "numalign"} if ours else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": PLACE.namespace, "name": PLACE.name, "labels": labels},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def files(made: Pair) -> dict[str, bytes]:
    """A pair as the keys of a Secret."""
    return {"ca.crt": made.ca_pem, "tls.crt": made.cert_pem, "tls.key": made.key_pem}


def configuration(
    kind: str = MUTATING,
    *,
    bundle: bytes = b"",
    webhooks: int = 1,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A webhook configuration, before anybody put an authority into it, or with one."""
    config: Json = {"service": {"namespace": PLACE.namespace, "name": "numalign-webhook", "path": "/x"}}
    if bundle:
        config["caBundle"] = base64.b64encode(bundle).decode()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": CONFIGURATION, "annotations": dict(annotations or {})},
        "webhooks": [
            {"name": f"{number}.numalign.io", "clientConfig": config, "sideEffects": "None"}
            for number in range(webhooks)
        ],
    }


def configuration_path(kind: str) -> str:
    """Where a configuration stands."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{CONFIGURATION}"


def bundles(api: FakeApi, kind: str) -> list[bytes]:
    """What each webhook of a configuration trusts."""
    found = api.get(configuration_path(kind)) or {"webhooks": []}
    return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in found["webhooks"]]
