"""The webhook configurations: one patch of one field, and only where it is ours."""

from http import HTTPStatus

import pytest

from certs import bundle, certificate
from certs.bundle import WebhookConfiguration
from numalign.kube.client import Api
from numalign.kube.errors import Conflict, Forbidden, NotFound
from tests.worlds.notation import table
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    VALIDATING,
    bundles,
    configuration,
    configuration_path,
    pair,
)
from tools.clusters.fake_api import FakeApi

ONE, TWO = pair(), pair()
BUNDLE = ONE.ca_pem + TWO.ca_pem
CHAIN = [certificate.first(ONE.cert_pem)]
MUTATING_PATH, VALIDATING_PATH = map(configuration_path, (MUTATING, VALIDATING))
INJECTED = {"cert-manager.io/inject-ca-from": "numalign-system/serving"}


def patches(cluster: FakeApi) -> list[str]:
    return [call.path for call in cluster.requests if call.method == "PATCH"]


async def published(client: Api, ca: bytes = BUNDLE) -> tuple[WebhookConfiguration, ...]:
    return await bundle.publish(client, await bundle.read(client, CONFIGURATION), bundle=ca)


async def test_bundle_is_written_to_every_webhook(cluster: FakeApi, client: Api) -> None:
    assert bundle.trusted(await published(client), BUNDLE)

    for kind, count in ((MUTATING, 2), (VALIDATING, 1)):
        stored = cluster.get(configuration_path(kind)) or {}
        # Nothing else is changed.
        assert stored["webhooks"] == configuration(kind, bundle=BUNDLE, webhooks=count)["webhooks"]
    assert patches(cluster) == [MUTATING_PATH, VALIDATING_PATH]


async def test_only_a_different_bundle_is_patched(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=BUNDLE))
    cluster.put(configuration(VALIDATING, bundle=ONE.ca_pem))
    await published(client)

    assert patches(cluster) == [VALIDATING_PATH]


async def test_missing_configuration_does_not_stop_the_other(cluster: FakeApi, client: Api) -> None:
    cluster.delete(MUTATING_PATH)
    read = await published(client)

    assert isinstance(read[0].error, NotFound)
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert bundle.trusted(read, BUNDLE)
    assert list(bundle.problems(read, BUNDLE)) == [MUTATING]


async def test_bundle_is_untrusted_while_both_are_missing(cluster: FakeApi, client: Api) -> None:
    cluster.delete(MUTATING_PATH)
    cluster.delete(VALIDATING_PATH)
    read = await published(client)

    assert not bundle.trusted(read, BUNDLE)
    assert list(bundle.problems(read, BUNDLE)) == [MUTATING, VALIDATING]
    assert "does not exist" in (read[0].distrust(CHAIN) or "")
    assert cluster.get(MUTATING_PATH) is None


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_forbidden_configuration_does_not_stop_the_other(
    cluster: FakeApi, client: Api, method: str
) -> None:
    cluster.failures[method, MUTATING_PATH] = HTTPStatus.FORBIDDEN
    read = await published(client)

    assert isinstance(read[0].error, Forbidden)
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert not bundle.trusted(read, BUNDLE)


async def test_configuration_changed_since_the_read_conflicts(cluster: FakeApi, client: Api) -> None:
    read = await bundle.read(client, CONFIGURATION)
    cluster.put(configuration(MUTATING, bundle=TWO.ca_pem))

    with pytest.raises(Conflict):
        await bundle.publish(client, read, bundle=ONE.ca_pem)
    assert bundles(cluster, MUTATING) == [TWO.ca_pem]


async def test_bundle_injected_by_cert_manager_is_never_patched(cluster: FakeApi, client: Api) -> None:
    for kind in (MUTATING, VALIDATING):
        cluster.put(configuration(kind, bundle=ONE.ca_pem, annotations=INJECTED))
    read = await published(client, TWO.ca_pem)

    assert patches(cluster) == []
    assert not bundle.trusted(read, TWO.ca_pem)
    assert bundle.problems(read, TWO.ca_pem)[MUTATING].startswith("cert-manager has not injected")


async def test_injected_bundle_may_have_more_authorities(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=BUNDLE, annotations=INJECTED))
    cluster.delete(VALIDATING_PATH)
    read = await bundle.read(client, CONFIGURATION)

    assert bundle.trusted(read, TWO.ca_pem)
    assert bundle.problems(read, TWO.ca_pem).keys() == {VALIDATING}


ODD: list[tuple[str, bytes]] = [
    ("no object", b"[]"),
    ("no webhooks", b"{}"),
    ("webhooks of another type", b'{"webhooks": [7, null]}'),
    ("a bundle that is not base64", b'{"webhooks": [{"name": "x", "clientConfig": {"caBundle": "%"}}]}'),
]


@pytest.mark.parametrize("body", table(ODD))
async def test_odd_answer_does_not_stop_the_other(cluster: FakeApi, client: Api, body: bytes) -> None:
    cluster.oddities[MUTATING_PATH] = body
    read = await published(client)

    assert [each.kind for each in read] == [MUTATING, VALIDATING]
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert read[1].distrust(CHAIN) is None


async def test_distrust_names_the_webhooks(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=TWO.ca_pem, webhooks=2))
    cluster.put(configuration(VALIDATING, bundle=BUNDLE))
    mutating, validating = await bundle.read(client, CONFIGURATION)

    assert validating.distrust(CHAIN) is None
    assert mutating.distrust(CHAIN) == (
        "the caBundle of 0.numalign.io, 1.numalign.io does not contain the certificate's CA"
    )
