"""What the webhook can be told, beyond what every server can."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from certs import authority
from numalign.rules.intent import Match
from numalign.runtime.serving import ServerSettings
from numalign.runtime.settings import Contradiction
from webhook.patch import Mode
from webhook.workloads import Workloads

# RFC 1123, as Kubernetes asks of the names of nearly everything.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _named(text: str) -> str:
    """A name that an object can have; raises `ValueError`."""
    if _NAME.fullmatch(text):
        return text
    raise ValueError("a name in Kubernetes has small letters, digits and -, with dots between its parts")


def _certifiable(text: str) -> str:
    """Names with commas between them; raises `ValueError` with all that no certificate can be for."""
    wrong = [mistake.message for mistake in authority.wrong_names(_names(text))] if text else []
    if wrong:
        raise ValueError("; ".join(wrong))
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


Name = Annotated[str, AfterValidator(_named)]


class ClusterSettings(ServerSettings):
    """Where the webhook learns what the cluster is, and what it does there."""

    snapshot: Path | None = Field(
        default=None,
        description="File of nodes, their topologies and namespaces, as `kubectl numa snapshot` writes"
        " it (JSON or YAML, gzip understood). Reviews are answered from it, in place of the API server."
        " Replace it by renaming another file over it: YAML that is cut off can look whole.",
    )
    snapshot_reload_seconds: float = Field(
        default=2.0,
        ge=0,
        description="How often, in seconds, to look whether the snapshot has changed; 0 never does.",
    )
    kubeconfig: str | None = Field(
        default=None,
        description="Which API server to follow. By default that of $KUBECONFIG or ~/.kube/config, and inside"
        " a pod the one that it runs under.",
    )
    context: str | None = Field(
        default=None,
        description="Context of the kubeconfig; by default its current one.",
    )
    namespace: Name | None = Field(
        default=None,
        description="Namespace of the webhook itself: there it keeps its lease and its certificate. By"
        " default the one of the pod, or of the kubeconfig's context.",
    )
    count_pods: bool = Field(
        default=True,
        description="Watch pods too, and count by namespace those that fall short of what it asks for."
        " Reviews do not need it; false saves the watch.",
    )
    kubelet_configs: bool = Field(
        default=False,
        description="Read the configuration of every kubelet through the API server's node proxy, slowly."
        " Verdicts then know its options. Off by default, for the right to nodes/proxy is a strong one.",
    )
    label_nodes: bool = Field(
        default=True,
        description="Let the leader label nodes with their class. false where another program does.",
    )
    dry_run: bool = Field(
        default=False,
        description="Print which node labels would change and end, without writing or serving anything.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """One source."""
        yield from super().contradictions()
        for name in ("kubeconfig", "context", "kubelet_configs"):
            if self.snapshot and getattr(self, name):
                yield Contradiction(
                    ("snapshot", name), "a file and an API server exclude each other: keep one of them"
                )


class CertificateSettings(ClusterSettings):
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
    policy_match: Match = Field(
        default=Match.SATISFIES,
        description="satisfies takes any node that can keep the pod's promise; equal wants the node's"
        " own policy to be the pod's, as Volcano does.",
    )
    unknown_nodes: Literal["cannot-fit", "may-fit"] = Field(
        default="cannot-fit",
        description="Whether nodes without topology save a pod from refusal. may-fit suits clusters"
        " whose autoscaler starts from zero; by default they do not, or nothing would ever be refused.",
    )
    policy: Path | None = Field(
        default=None,
        description="YAML file of what the cluster asks of pods by default, by namespace selector, and of who"
        " is exempt. One that is wrong is refused as a whole, and the one before holds.",
    )
    policy_reload_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How often, in seconds, to look whether the policy file has changed; 0 never does.",
    )
    workloads: Workloads = Field(
        default=Workloads.WARN,
        description="What happens to a Deployment, Job or the like whose pods no node could ever align: warn"
        " whoever applies it, deny it, or off.",
    )
