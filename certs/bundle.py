"""
The CA bundle by which API servers trust us: the `caBundle` of our two webhook configurations.

They are created by the installation and only the bundle is ours, so it is changed by a patch of that field.
The patch names the version that was read. A process that was delayed meanwhile, and has an outdated bundle,
therefore gets a conflict. Configurations into which cert-manager injects an authority are left alone.
"""

import asyncio
import base64
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cryptography import x509

from certs import certificate
from numalign.kube.client import Api, Patch
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, NotFound

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
INJECTED = ("cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret")


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """One webhook configuration as last read, or why it could not be read."""

    kind: str
    name: str
    raw: object = None
    error: ClusterError | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        """Return the path of the object."""
        return f"/apis/admissionregistration.k8s.io/v1/{self.kind.lower()}s/{self.name}"

    @property
    def injected(self) -> bool:
        """Return whether cert-manager injects its bundle."""
        annotations = Part(self.raw)["metadata"]["annotations"]
        return any(annotations[name].value for name in INJECTED)

    @property
    def version(self) -> str:
        """Return the resource version that was read; "" if there is none."""
        return Part(self.raw)["metadata"]["resourceVersion"].text()

    def carries(self, bundle: bytes) -> bool:
        """Return whether all of its webhooks trust the bundle."""
        if self.injected:
            wanted = set(x509.load_pem_x509_certificates(bundle))
            return all(wanted <= set(_certificates(text)) for _, text in self._webhooks())
        return not self.without(bundle)

    def distrust(self, chain: Sequence[x509.Certificate]) -> str | None:
        """Return why callers would not accept a pair with these certificates; None if they would."""
        if self.error:
            return str(self.error)
        trusted = ((name, _certificates(text)) for name, text in self._webhooks())
        without = [name for name, roots in trusted if certificate.root(chain, roots) is None]
        names = ", ".join(without)
        return f"the caBundle of {names} does not contain the certificate's CA" if without else None

    def without(self, bundle: bytes) -> list[str]:
        """Return the names of its webhooks that do not have exactly this bundle."""
        wanted = base64.b64encode(bundle).decode()
        return [name for name, text in self._webhooks() if text != wanted]

    def _webhooks(self) -> Iterator[tuple[str, str]]:
        for webhook in Part(self.raw)["webhooks"].objects():
            yield webhook["name"].text(), webhook["clientConfig"]["caBundle"].text()


async def read(api: Api, name: str) -> tuple[WebhookConfiguration, ...]:
    """Return both current configurations of that name; each has its error if it cannot be read."""

    async def current(kind: str) -> WebhookConfiguration:
        configuration = WebhookConfiguration(kind, name)
        return await _answered(configuration, api.get(configuration.path, what=str(configuration)))

    return tuple(await asyncio.gather(*map(current, KINDS)))


async def publish(
    api: Api, configurations: Iterable[WebhookConfiguration], *, bundle: bytes
) -> tuple[WebhookConfiguration, ...]:
    """
    Set the bundle in each configuration, and return the results.

    Those that are missing, or managed by cert-manager, are left alone; one that cannot be changed has its
    error. Raise `Conflict` if one was changed since it was read: read everything again.
    """
    published: list[WebhookConfiguration] = []
    for each in configurations:
        if each.error or each.injected or each.carries(bundle):
            published.append(each)
            continue
        config = {"caBundle": base64.b64encode(bundle).decode()}
        webhooks = [{"name": name, "clientConfig": config} for name in each.without(bundle)]
        patch = {"metadata": {"resourceVersion": each.version}, "webhooks": webhooks}
        answer = api.patch(each.path, patch, how=Patch.STRATEGIC, what=str(each))
        published.append(await _answered(each, answer))
    return tuple(published)


async def _answered(configuration: WebhookConfiguration, answer: Awaitable[object]) -> WebhookConfiguration:
    try:
        return replace(configuration, raw=await answer)
    except Conflict:
        raise
    except ClusterError as error:
        return replace(configuration, error=error)


def trusted(configurations: Sequence[WebhookConfiguration], bundle: bytes) -> bool:
    """Return whether all callers trust the bundle: each configuration that exists has it."""
    present = [config for config in configurations if not isinstance(config.error, NotFound)]
    return bool(present) and not problems(present, bundle)


def versions(configurations: Iterable[WebhookConfiguration]) -> tuple[str, ...]:
    """Return values that change whenever one of them is changed."""
    return tuple(configuration.version for configuration in configurations)


def problems(configurations: Iterable[WebhookConfiguration], bundle: bytes) -> Mapping[str, str]:
    """Return why configurations do not have the bundle, by kind; empty if all do."""
    found = {}
    for configuration in configurations:
        if configuration.error:
            found[configuration.kind] = str(configuration.error)
        elif not configuration.carries(bundle):
            found[configuration.kind] = "cert-manager has not injected the CA of this certificate yet"
    return found


def _certificates(text: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(text))
    except ValueError:
        return []
