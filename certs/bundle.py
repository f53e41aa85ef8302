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
    """One webhook configuration as it was last read, or why it could not be."""

    kind: str
    name: str
    raw: object = None
    error: ClusterError | None = None

    @property
    def path(self) -> str:
        """The path of the object."""
        return f"/apis/admissionregistration.k8s.io/v1/{self.kind.lower()}s/{self.name}"

    @property
    def injected(self) -> bool:
        """Whether cert-manager injects its bundle."""
        annotations = Part(self.raw)["metadata"]["annotations"]
        return any(annotations[name].value for name in INJECTED)

    @property
    def version(self) -> str:
        """The resource version that was read; empty, if none was."""
        return Part(self.raw)["metadata"]["resourceVersion"].text()

    def carries(self, bundle: bytes) -> bool:
        """Whether all of its webhooks trust the bundle."""
        if self.injected:
            wanted = set(_certificates(bundle))
            return all(wanted <= set(_certificates(_bytes(text))) for _, text in self._webhooks())
        return not self._without(bundle)

    def problem(self, bundle: bytes) -> str | None:
        """Why it does not carry the bundle; None if it does."""
        if self.error or self.carries(bundle):
            return str(self.error) if self.error else None
        return "cert-manager has not injected the CA of this certificate yet"

    def distrust(self, chain: Sequence[x509.Certificate]) -> str | None:
        """Why callers would not accept a pair with these certificates; None if they would."""
        if self.error:
            return str(self.error)
        trusted = ((name, tuple(_certificates(_bytes(text)))) for name, text in self._webhooks())
        without = [name for name, roots in trusted if certificate.root(chain, roots) is None]
        return (
            f"the caBundle of {', '.join(without)} does not contain the certificate's CA" if without else None
        )

    async def read(self, api: Api) -> "WebhookConfiguration":
        """The configuration as it is now, or its error."""
        return await self._answered(api.get(self.path, what=f"{self.kind} {self.name}"))

    async def publish(self, api: Api, bundle: bytes) -> "WebhookConfiguration":
        """Patch the bundle in where it is missing and ours; raises `Conflict`, any other is its error."""
        if self.error or self.injected or self.carries(bundle):
            return self
        config = {"caBundle": base64.b64encode(bundle).decode()}
        webhooks = [{"name": name, "clientConfig": config} for name in self._without(bundle)]
        patch = {"metadata": {"resourceVersion": self.version}, "webhooks": webhooks}
        what = f"{self.kind} {self.name}"
        return await self._answered(api.patch(self.path, patch, how=Patch.STRATEGIC, what=what))

    async def _answered(self, answer: Awaitable[object]) -> "WebhookConfiguration":
        try:
            return replace(self, raw=await answer)
        except Conflict:
            raise
        except ClusterError as error:
            return replace(self, error=error)

    def _without(self, bundle: bytes) -> list[str]:
        wanted = base64.b64encode(bundle).decode()
        return [name for name, text in self._webhooks() if text != wanted]

    def _webhooks(self) -> Iterator[tuple[str, str]]:
        for webhook in Part(self.raw)["webhooks"].objects():
            yield webhook["name"].text(), webhook["clientConfig"]["caBundle"].text()


async def read(api: Api, name: str) -> tuple[WebhookConfiguration, ...]:
    """Both configurations of that name, as they are now; each with its error if it cannot be had."""
    return tuple(await asyncio.gather(*(WebhookConfiguration(kind, name).read(api) for kind in KINDS)))


async def publish(
    api: Api, configurations: Iterable[WebhookConfiguration], *, bundle: bytes
) -> tuple[WebhookConfiguration, ...]:
    """Let each configuration carry the bundle, and return them as they are then.

    Those that are missing, or cert-manager's, are left alone; one that cannot be changed has its error.
    Raises `Conflict` if one was changed since it was read: read everything again.
    """
    return tuple([await configuration.publish(api, bundle) for configuration in configurations])


def trusted(configurations: Sequence[WebhookConfiguration], bundle: bytes) -> bool:
    """Whether all callers trust the bundle: each configuration that exists carries it."""
    present = [config for config in configurations if not isinstance(config.error, NotFound)]
    return bool(present) and not problems(present, bundle)


def versions(configurations: Iterable[WebhookConfiguration]) -> tuple[str, ...]:
    """What changes whenever one of them is changed."""
    return tuple(configuration.version for configuration in configurations)


def problems(configurations: Iterable[WebhookConfiguration], bundle: bytes) -> Mapping[str, str]:
    """Why configurations do not carry the bundle, by their kinds; empty if all do."""
    reasons = ((configuration.kind, configuration.problem(bundle)) for configuration in configurations)
    return {kind: problem for kind, problem in reasons if problem is not None}


def _certificates(pem: bytes) -> Iterator[x509.Certificate]:
    try:
        yield from x509.load_pem_x509_certificates(pem)
    except ValueError:
        return


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
