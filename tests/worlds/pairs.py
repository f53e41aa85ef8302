"""Pairs of certificates, and the objects of a cluster that carry them."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from certs import authority
from certs.authority import Pair
from certs.secret import SecretRef
from tests.worlds.clock import NOON
from tools.clusters.fake_api import FakeApi

NAMES = ("numalign-webhook.numalign-system.svc",)
PLACE = SecretRef("numalign-system", "numalign-webhook-tls")
CONFIGURATION = "zz-numalign"
MUTATING = "MutatingWebhookConfiguration"
VALIDATING = "ValidatingWebhookConfiguration"

Json = dict[str, Any]


def pair(*names: str, days: int = 30, now: datetime = NOON) -> Pair:
    return authority.issue(names=names or NAMES, days=days, now=now)


def secret(data: Mapping[str, bytes], *, ours: bool = True) -> Json:
    labels = {"app.kubernetes.io/managed-by": "numalign"} if ours else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": PLACE.namespace, "name": PLACE.name, "labels": labels},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def files(made: Pair) -> dict[str, bytes]:
    return {"ca.crt": made.ca_pem, "tls.crt": made.cert_pem, "tls.key": made.key_pem}


def configuration(
    kind: str = MUTATING,
    *,
    bundle: bytes = b"",
    webhooks: int = 1,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A webhook configuration; it trusts no authority unless there is a bundle."""
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
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{CONFIGURATION}"


def bundles(api: FakeApi, kind: str) -> list[bytes]:
    stored = api.get(configuration_path(kind)) or {"webhooks": []}
    return [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in stored["webhooks"]]
