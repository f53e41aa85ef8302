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
MUTATING_PATH, VALIDATING_PATH = map(configuration_path, (MUTATING, VALIDATING))
INJECTED = {"cert-manager.io/inject-ca-from": "numalign-system/serving"}


def patches(cluster: FakeApi) -> list[str]:
    return [asked.path for asked in cluster.requests if asked.method == "PATCH"]


async def published(client: Api) -> tuple[WebhookConfiguration, ...]:
    return await bundle.publish(client, await bundle.read(client, CONFIGURATION), bundle=BUNDLE)


async def test_every_webhook_of_both_carries_the_bundle(cluster: FakeApi, client: Api) -> None:
    seen = await published(client)

    assert bundle.trusted(seen, BUNDLE)
    for kind, count in ((MUTATING, 2), (VALIDATING, 1)):
        stored = cluster.get(configuration_path(kind)) or {}
        # Nothing else is changed.
        assert stored["webhooks"] == configuration(kind, bundle=BUNDLE, webhooks=count)["webhooks"]
    assert patches(cluster) == [MUTATING_PATH, VALIDATING_PATH]


async def test_what_carries_it_already_is_left_alone(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=BUNDLE))
    cluster.put(configuration(VALIDATING, bundle=ONE.ca_pem))
    await published(client)

    assert patches(cluster) == [VALIDATING_PATH]


async def test_one_that_is_missing_does_not_stop_the_other(cluster: FakeApi, client: Api) -> None:
    cluster.delete(MUTATING_PATH)
    seen = await published(client)

    assert isinstance(seen[0].error, NotFound)
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert bundle.trusted(seen, BUNDLE)
    assert list(bundle.problems(seen, BUNDLE)) == [MUTATING]


async def test_nobody_trusts_while_both_are_missing(cluster: FakeApi, client: Api) -> None:
    cluster.delete(MUTATING_PATH)
    cluster.delete(VALIDATING_PATH)
    seen = await published(client)

    assert not bundle.trusted(seen, BUNDLE)
    assert list(bundle.problems(seen, BUNDLE)) == [MUTATING, VALIDATING]
    assert "does not exist" in (seen[0].distrust([certificate.first(ONE.cert_pem)]) or "")
    assert cluster.get(MUTATING_PATH) is None


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_one_that_is_forbidden_does_not_stop_the_other(
    cluster: FakeApi, client: Api, method: str
) -> None:
    cluster.failures[method, MUTATING_PATH] = HTTPStatus.FORBIDDEN
    seen = await published(client)

    assert isinstance(seen[0].error, Forbidden)
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert not bundle.trusted(seen, BUNDLE)


async def test_one_that_changed_since_it_was_seen_is_not_patched(cluster: FakeApi, client: Api) -> None:
    seen = await bundle.read(client, CONFIGURATION)
    cluster.put(configuration(MUTATING, bundle=TWO.ca_pem))

    with pytest.raises(Conflict):
        await bundle.publish(client, seen, bundle=ONE.ca_pem)
    assert bundles(cluster, MUTATING) == [TWO.ca_pem]


async def test_what_cert_manager_injects_is_left_alone(cluster: FakeApi, client: Api) -> None:
    for kind in (MUTATING, VALIDATING):
        cluster.put(configuration(kind, bundle=ONE.ca_pem, annotations=INJECTED))
    seen = await bundle.publish(client, await bundle.read(client, CONFIGURATION), bundle=TWO.ca_pem)

    assert patches(cluster) == []
    assert not bundle.trusted(seen, TWO.ca_pem)
    assert bundle.problems(seen, TWO.ca_pem)[MUTATING].startswith("cert-manager has not injected")


async def test_what_cert_manager_injects_may_be_more_than_ours(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=BUNDLE, annotations=INJECTED))
    cluster.delete(VALIDATING_PATH)
    seen = await bundle.read(client, CONFIGURATION)

    assert bundle.trusted(seen, TWO.ca_pem)
    assert bundle.problems(seen, TWO.ca_pem).keys() == {VALIDATING}


ODD: list[tuple[str, bytes]] = [
    ("no object", b"[]"),
    ("no webhooks", b"{}"),
    ("webhooks that are none", b'{"webhooks": [7, null]}'),
    ("a bundle that is none", b'{"webhooks": [{"name": "x", "clientConfig": {"caBundle": "%"}}]}'),
]


@pytest.mark.parametrize("said", table(ODD))
async def test_odd_answers_break_nothing(cluster: FakeApi, client: Api, said: bytes) -> None:
    cluster.oddities[MUTATING_PATH] = said
    seen = await published(client)
    chain = [certificate.first(ONE.cert_pem)]

    assert [each.kind for each in seen] == [MUTATING, VALIDATING]
    assert bundles(cluster, VALIDATING) == [BUNDLE]
    assert seen[1].distrust(chain) is None


async def test_who_distrusts_a_pair(cluster: FakeApi, client: Api) -> None:
    cluster.put(configuration(MUTATING, bundle=TWO.ca_pem, webhooks=2))
    cluster.put(configuration(VALIDATING, bundle=BUNDLE))
    chain = [certificate.first(ONE.cert_pem)]
    mutating, validating = await bundle.read(client, CONFIGURATION)

    assert validating.distrust(chain) is None
    assert mutating.distrust(chain) == (
        "the caBundle of 0.numalign.io, 1.numalign.io does not contain the certificate's CA"
    )
