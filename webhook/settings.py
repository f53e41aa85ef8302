"""What the webhook can be told, beyond what every door can."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from certs import authority
from numalign.cluster.settings import ClusterSettings, Name
from numalign.runtime.settings import Contradiction
from webhook.patch import Mode
from webhook.workloads import Workloads


def _certifiable(text: str) -> str:
    """Names with commas between them; raises `ValueError` with all that no certificate can be for."""
    wrong = [mistake.message for mistake in authority.wrong_names(_names(text))] if text else []
    if wrong:
        raise ValueError("; ".join(wrong))
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


class OwnSettings(ClusterSettings):
    """What the webhook does in the cluster."""

    count_pods: bool = Field(
        default=True,
        description="Watch pods too, and count by namespace those that fall short of what it asks for."
        " Reviews do not need it; false saves the watch.",
    )
    label_nodes: bool = Field(
        default=True,
        description="Let the leader label nodes with their class. false where another program does.",
    )
    dry_run: bool = Field(
        default=False,
        description="Print which node labels would change and end, without writing or serving anything.",
    )


class CertificateSettings(OwnSettings):
    """The certificate that the webhook makes for itself."""

    tls_secret: Name | None = Field(
        default=None,
        description="Name of a Secret in the webhook's namespace, shared by all replicas, in place of"
        " --tls-cert and --tls-key: the first replica makes a certificate there, and it is renewed in time.",
    )
    tls_names: Annotated[str, AfterValidator(_certifiable)] = Field(
        default="",
        description="Names and addresses, with commas between them, that the certificate in --tls-secret is"
        " for, beyond those of the service.",
    )
    tls_days: int = Field(
        default=90,
        ge=1,
        le=3650,
        description="Days for which the certificate in --tls-secret is made; it is renewed after two thirds.",
    )
    service: Name = Field(
        default="numalign-webhook",
        description="Name of the Service that leads to the webhook: what the certificate in --tls-secret is"
        " for.",
    )
    webhook_configuration: Name = Field(
        default="zz-numalign",
        description="Name of the webhook configurations, mutating and validating, in which the authority of"
        " the certificate in --tls-secret is kept up to date.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the certificate in `tls_secret` is asked for, beside those of the service."""
        return _names(self.tls_names)

    def contradictions(self) -> Iterator[Contradiction]:
        """One certificate, and an API server to keep it if it is our own."""
        files = ("tls_cert", "tls_key", "insecure_http")
        for clash in super().contradictions():
            # Who serves nothing needs none, and a Secret takes the place of files.
            if clash.names != files or not (self.dry_run or self.tls_secret):
                yield clash
        if self.tls_secret and (self.tls_cert or self.tls_key or self.insecure_http):
            yield Contradiction(
                ("tls_secret", *files),
                "a certificate in a Secret, one in files and plain HTTP exclude each other: keep one of them",
            )
        if self.tls_secret and self.snapshot:
            yield Contradiction(
                ("tls_secret", "snapshot"),
                "a Secret needs an API server, which --snapshot does without: give --tls-cert and --tls-key",
            )


class WebhookSettings(CertificateSettings):
    """The webhook."""

    injection: Mode = Field(
        default=Mode.EXCLUDE,
        description="How pods are kept from nodes that cannot align them: exclude those classes (new"
        " nodes stay eligible, so autoscalers keep working), include only the others, prefer them, or off.",
    )
    workloads: Workloads = Field(
        default=Workloads.WARN,
        description="What happens to a Deployment, Job or the like whose pods no node could ever align: warn"
        " whoever applies it, deny it, or off.",
    )
