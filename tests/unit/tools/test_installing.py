"""What a cluster needs for an operator is as its module ships it, but for where it runs."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from tools.clusters import installing
from tools.clusters.installing import Place

PORT, PROBES = 25_000, 25_001


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """The certificate of an authority."""
    (tmp_path / "ca.crt").write_bytes(b"certificate")
    return tmp_path / "ca.crt"


BUNDLE = b64encode(b"certificate").decode()


def test_webhooks_call_a_local_port(ca: Path) -> None:
    service = {"service": {"name": "operator", "path": "/mutate"}}

    moved = installing.called(
        {"kind": "Hooks", "webhooks": [{"name": "one", "clientConfig": service}]}, PORT, ca
    )

    here = {"url": f"https://127.0.0.1:{PORT}/mutate", "caBundle": BUNDLE}
    assert moved == {"kind": "Hooks", "webhooks": [{"name": "one", "clientConfig": here}]}


def test_conversion_calls_a_local_port(ca: Path) -> None:
    webhook = {"clientConfig": {"service": {"path": "/convert"}}, "conversionReviewVersions": ["v1"]}
    definition = {"spec": {"group": "example.com", "conversion": {"strategy": "Webhook", "webhook": webhook}}}

    moved = installing.called(definition, PORT, ca)["spec"]

    here = {"url": f"https://127.0.0.1:{PORT}/convert", "caBundle": BUNDLE}
    assert moved["group"] == "example.com"
    assert moved["conversion"]["webhook"] == {**webhook, "clientConfig": here}


@pytest.mark.parametrize("document", [{"kind": "Role"}, {"spec": {"conversion": {"strategy": "None"}}}])
def test_other_objects_stay_as_they_are(document: dict[str, object], ca: Path) -> None:
    assert installing.called(document, PORT, ca) is document


def test_subjects_default_to_the_operator_namespace() -> None:
    account, elsewhere, user = (
        {"kind": "ServiceAccount", "name": "operator"},
        {"kind": "ServiceAccount", "name": "other", "namespace": "elsewhere"},
        {"kind": "User", "name": "admin"},
    )

    bound = installing.bound({"kind": "RoleBinding", "subjects": [account, elsewhere, user]}, "home")

    assert bound["subjects"] == [{**account, "namespace": "home"}, elsewhere, user]
    assert installing.bound({"kind": "Role"}, "home") == {"kind": "Role"}


def test_manager_serves_locally_and_alone(tmp_path: Path) -> None:
    place = Place(tmp_path / "operator", tmp_path, tmp_path, tmp_path, webhooks=PORT, probes=PROBES)

    written = place.manager({"kind": "Configuration", "webhook": {"certDir": "/tls", "port": 9443}})

    assert json.loads(written.read_text()) == {
        "kind": "Configuration",
        "webhook": {"certDir": "/tls", "host": "127.0.0.1", "port": PORT},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{PROBES}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
    }
