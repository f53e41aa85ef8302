"""
Whom API servers trust when they call us: the `caBundle` of our two webhook configurations.

They are made by whoever installs us and only the bundle is ours, so it is changed by a patch of that field.
The patch says which version was read. A process that was held up in the meantime, with a bundle that is no
longer true, therefore loses against the one that has gone on. Configurations into which cert-manager injects
an authority are left to it.
"""

import asyncio
import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cryptography import x509

from certs import certificate
from numalign.kube.client import Api, ClusterError, Conflict, NotFound, Patch
from numalign.kube.decode.parts import Part

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
INJECTED = ("cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One webhook configuration as it was last seen, or why it could not be."""

    kind: str
    name: str
    raw: object = None
    error: ClusterError | None = None

    @property
    def path(self) -> str:
        """Where it stands."""
        return f"/apis/admissionregistration.k8s.io/v1/{self.kind.lower()}s/{self.name}"

    @property
    def injected(self) -> bool:
        """Whether cert-manager looks after its bundle."""
        annotations = Part(self.raw)["metadata"]["annotations"]
        return any(annotations[name].value for name in INJECTED)

    @property
    def version(self) -> str:
        """The version that was seen; empty, if none was."""
        return Part(self.raw)["metadata"]["resourceVersion"].text()

    def carries(self, bundle: bytes) -> bool:
        """Whether all of its webhooks trust the bundle."""
        if self.injected:
            wanted = set(_certificates(bundle))
            return all(wanted <= set(_certificates(_bytes(text))) for _, text in self._webhooks())
        return not self._without(bundle)

    def patch(self, bundle: bytes) -> dict[str, object]:
        """What makes it carry the bundle, if it is still what it was."""
        config = {"caBundle": base64.b64encode(bundle).decode()}
        webhooks = [{"name": name, "clientConfig": config} for name in self._without(bundle)]
        return {"metadata": {"resourceVersion": self.version}, "webhooks": webhooks}

    def problem(self, bundle: bytes) -> str | None:
        """Why it does not carry the bundle; None if it does."""
        if self.error or self.carries(bundle):
            return str(self.error) if self.error else None
        return "cert-manager is to inject the authority, and has not injected this one"

    def distrust(self, chain: Sequence[x509.Certificate]) -> str | None:
        """Why those who call would not accept a pair with these certificates; None if they would."""
        if self.error:
            return str(self.error)
        held = ((name, tuple(_certificates(_bytes(text)))) for name, text in self._webhooks())
        strangers = [name for name, trusted in held if certificate.root(chain, trusted) is None]
        return f"the caBundle of {', '.join(strangers)} holds no authority of the pair" if strangers else None

    def _without(self, bundle: bytes) -> list[str]:
        wanted = base64.b64encode(bundle).decode()
        return [name for name, text in self._webhooks() if text != wanted]

    def _webhooks(self) -> Iterator[tuple[str, str]]:
        for webhook in Part(self.raw)["webhooks"].objects():
            yield webhook["name"].text(), webhook["clientConfig"]["caBundle"].text()


async def look(api: Api, name: str) -> tuple[Configuration, ...]:
    """Both configurations of that name, as they are now; each with its error if it cannot be had."""
    return tuple(await asyncio.gather(*(_seen(api, Configuration(kind, name)) for kind in KINDS)))


async def publish(api: Api, seen: Iterable[Configuration], *, bundle: bytes) -> tuple[Configuration, ...]:
    """Let each configuration carry the bundle, and give them as they are then.

    Those that are missing, or cert-manager's, are left alone; one that cannot be changed has its error.
    Raises `Conflict` if one was changed since it was seen: look at everything again.
    """
    return tuple([await _published(api, each, bundle=bundle) for each in seen])


def trusted(seen: Sequence[Configuration], bundle: bytes) -> bool:
    """Whether all who call us trust the bundle: each configuration that there is carries it."""
    there = [each for each in seen if not isinstance(each.error, NotFound)]
    return bool(there) and all(each.problem(bundle) is None for each in there)


def versions(seen: Iterable[Configuration]) -> tuple[str, ...]:
    """What changes whenever one of them is changed by anybody."""
    return tuple(each.version for each in seen)


def problems(seen: Iterable[Configuration], bundle: bytes) -> Mapping[str, str]:
    """Why configurations do not carry the bundle, by their kinds; empty if both do."""
    told = ((each.kind, each.problem(bundle)) for each in seen)
    return {kind: problem for kind, problem in told if problem is not None}


async def _seen(api: Api, configuration: Configuration) -> Configuration:
    what = f"{configuration.kind} {configuration.name}"
    try:
        return replace(configuration, raw=await api.get(configuration.path, what=what))
    except ClusterError as error:
        return replace(configuration, error=error)


async def _published(api: Api, configuration: Configuration, *, bundle: bytes) -> Configuration:
    if configuration.error or configuration.injected or configuration.carries(bundle):
        return configuration
    what = f"{configuration.kind} {configuration.name}"
    try:
        raw = await api.patch(configuration.path, configuration.patch(bundle), how=Patch.STRATEGIC, what=what)
        return replace(configuration, raw=raw)
    except Conflict:
        raise
    except ClusterError as error:
        return replace(configuration, error=error)


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
