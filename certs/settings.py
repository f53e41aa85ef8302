"""What is told of a shared pair, to whoever keeps it and to whoever serves it."""

from typing import Annotated

from pydantic import AfterValidator, Field

from certs import authority
from numalign.kube.settings import Name
from numalign.runtime.settings import Settings


def _certifiable(text: str) -> str:
    """Names with commas between them; raises `ValueError` with all that no certificate can be for."""
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
        description="Name of a Secret in the program's namespace that holds the webhook's certificate:"
        " numalign-controller makes and renews it there, and all replicas of the webhook serve it.",
    )
    tls_names: Annotated[str, AfterValidator(_certifiable)] = Field(
        default="",
        description="Names and addresses, with commas between them, that the certificate in --tls-secret is"
        " for, beyond those of the service.",
    )
    service: Name = Field(
        default="numalign-webhook",
        description="Name of the Service that leads to the webhook: what the certificate in --tls-secret is"
        " for.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the certificate in `tls_secret` is asked for, beside those of the service."""
        return _names(self.tls_names)

    def names_in(self, namespace: str) -> tuple[str, ...]:
        """All that callers call the webhook of a namespace: an API server the first of these."""
        service = f"{self.service}.{namespace}.svc"
        return (service, f"{service}.cluster.local", *self.names)
