"""The settings of the shared pair, for the controller, which keeps it, and the webhook, which serves it."""

from typing import Annotated

from pydantic import AfterValidator, Field

from certs import authority
from numalign.kube.settings import Name
from numalign.runtime.settings import Settings


def _certifiable(text: str) -> str:
    """Return comma-separated names; raise `ValueError` with all names that cannot be certified."""
    wrong = [mistake.message for mistake in authority.wrong_names(_names(text))] if text else []
    if wrong:
        raise ValueError("; ".join(wrong))
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


class PairSettings(Settings):
    """The webhook's certificate."""

    tls_secret: Name | None = Field(
        default=None,
        description="Name of a Secret in the program's namespace with the webhook's certificate:"
        " numalign-controller creates and renews it, and all replicas of the webhook serve it.",
    )
    tls_names: Annotated[str, AfterValidator(_certifiable)] = Field(
        default="",
        description="Comma-separated DNS names and IP addresses for which the certificate in --tls-secret is"
        " issued, in addition to those of the Service.",
    )
    service: Name = Field(
        default="numalign-webhook",
        description="Name of the webhook's Service, for which the certificate in --tls-secret is issued.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the certificate in `tls_secret` in addition to those of the Service."""
        return _names(self.tls_names)

    def names_in(self, namespace: str) -> tuple[str, ...]:
        """Return all names of the webhook in a namespace: API servers use the first."""
        service = f"{self.service}.{namespace}.svc"
        return (service, f"{service}.cluster.local", *self.names)
