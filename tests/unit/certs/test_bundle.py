"""The webhook configurations: one patch of one field, and only where it is ours."""

from http import HTTPStatus

import pytest

from certs import bundle, certificate
from certs.bundle import WebhookConfiguration
from numalign.kube.errors import Conflict, Forbidden, NotFound
from tests.unit.certs.conftest import Site
from tests.worlds.notation import table
from tests.worlds.pairs import CONFIGURATION, MUTATING, VALIDATING, configuration, configuration_path, pair

ONE, TWO = pair(), pair()
BUNDLE = ONE.ca_pem + TWO.ca_pem
CHAIN = [certificate.first(ONE.cert_pem)]
MUTATING_PATH, VALIDATING_PATH = map(configuration_path, (MUTATING, VALIDATING))
INJECTED = {"cert-manager.io/inject-ca-from": "numalign-system/serving"}


def patches(site: Site) -> list[str]:
    return [call.path for call in site.api.requests if call.method == "PATCH"]


async def published(site: Site, ca: bytes = BUNDLE) -> tuple[WebhookConfiguration, ...]:
    return await bundle.publish(site.client, await bundle.read(site.client, CONFIGURATION), bundle=ca)


async def test_bundle_is_written_to_every_webhook(site: Site) -> None:
    assert bundle.trusted(await published(site), BUNDLE)

    for kind, count in ((MUTATING, 2), (VALIDATING, 1)):
        stored = site.api.get(configuration_path(kind)) or {}
        # Nothing else is changed.
        assert stored["webhooks"] == configuration(kind, bundle=BUNDLE, webhooks=count)["webhooks"]
    assert patches(site) == [MUTATING_PATH, VALIDATING_PATH]


async def test_only_a_different_bundle_is_patched(site: Site) -> None:
    site.api.put(configuration(MUTATING, bundle=BUNDLE))
    site.api.put(configuration(VALIDATING, bundle=ONE.ca_pem))
    await published(site)

    assert patches(site) == [VALIDATING_PATH]


async def test_bundle_is_untrusted_while_both_are_missing(site: Site) -> None:
    site.api.delete(MUTATING_PATH)
    read = await published(site)
    assert isinstance(read[0].error, NotFound)
    assert site.bundles(VALIDATING) == [BUNDLE]
    assert (bundle.trusted(read, BUNDLE), list(bundle.problems(read, BUNDLE))) == (True, [MUTATING])

    site.api.delete(VALIDATING_PATH)
    read = await published(site)
    assert (bundle.trusted(read, BUNDLE), len(bundle.problems(read, BUNDLE))) == (False, 2)
    assert "does not exist" in (read[0].distrust(CHAIN) or "")
    assert site.api.get(MUTATING_PATH) is None


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_forbidden_configuration_does_not_stop_the_other(site: Site, method: str) -> None:
    site.api.failures[method, MUTATING_PATH] = HTTPStatus.FORBIDDEN
    read = await published(site)

    assert isinstance(read[0].error, Forbidden)
    assert site.bundles(VALIDATING) == [BUNDLE]
    assert not bundle.trusted(read, BUNDLE)


async def test_configuration_changed_since_the_read_conflicts(site: Site) -> None:
    read = await bundle.read(site.client, CONFIGURATION)
    site.api.put(configuration(MUTATING, bundle=TWO.ca_pem))

    with pytest.raises(Conflict):
        await bundle.publish(site.client, read, bundle=ONE.ca_pem)
    assert site.bundles(MUTATING) == [TWO.ca_pem]


async def test_bundle_injected_by_cert_manager_is_never_patched(site: Site) -> None:
    for kind in (MUTATING, VALIDATING):
        site.api.put(configuration(kind, bundle=ONE.ca_pem, annotations=INJECTED))
    read = await published(site, TWO.ca_pem)

    assert patches(site) == []
    assert not bundle.trusted(read, TWO.ca_pem)
    assert bundle.problems(read, TWO.ca_pem)[MUTATING].startswith("cert-manager has not injected")
    # It may inject more authorities.
    site.api.put(configuration(MUTATING, bundle=BUNDLE, annotations=INJECTED))
    site.api.delete(VALIDATING_PATH)
    read = await bundle.read(site.client, CONFIGURATION)
    assert bundle.trusted(read, TWO.ca_pem)
    assert bundle.problems(read, TWO.ca_pem).keys() == {VALIDATING}


ODD: list[tuple[str, bytes]] = [
    ("webhooks of another type", b'{"webhooks": [7, null]}'),
    ("a bundle that is not base64", b'{"webhooks": [{"name": "x", "clientConfig": {"caBundle": "%"}}]}'),
]


@pytest.mark.parametrize("body", table(ODD))
async def test_odd_answer_does_not_stop_the_other(site: Site, body: bytes) -> None:
    site.api.oddities[MUTATING_PATH] = body
    read = await published(site)

    assert [each.kind for each in read] == [MUTATING, VALIDATING]
    assert site.bundles(VALIDATING) == [BUNDLE]
    assert read[1].distrust(CHAIN) is None


async def test_distrust_names_the_webhooks(site: Site) -> None:
    site.api.put(configuration(MUTATING, bundle=TWO.ca_pem, webhooks=2))
    site.api.put(configuration(VALIDATING, bundle=BUNDLE))
    mutating, validating = await bundle.read(site.client, CONFIGURATION)

    why = "the caBundle of 0.numalign.io, 1.numalign.io does not contain the certificate's CA"
    assert (mutating.distrust(CHAIN), validating.distrust(CHAIN)) == (why, None)
