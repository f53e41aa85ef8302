"""Settings of the webhook, beyond those that every program has."""

from collections.abc import Iterator

from pydantic import Field

from certs.settings import PairSettings
from numalign.kube.settings import ClusterSettings, UnknownNodes
from numalign.runtime.settings import Contradiction
from webhook.patch import Mode
from webhook.workloads import Workloads


class WebhookSettings(PairSettings, ClusterSettings):
    """The webhook."""

    audit_log: str | None = Field(
        default=None,
        description=(
            "File to which one line of JSON is appended for each denied review, or - for standard"
            " output. Independent of --log-level. The file is opened again after it was moved, so"
            " log rotation needs no signal. By default nothing is written."
        ),
    )
    count_pods: bool = Field(
        default=True,
        description=(
            "Watch pods: count pods below the levels of their namespace, and keep new pods away"
            " for a while from nodes whose kubelet rejected a similar pod. false saves the watch."
        ),
    )
    gates: bool = Field(
        default=False,
        description=(
            "Add the scheduling gate numalign.io/placement to pods of namespaces labelled"
            " numalign.io/gate: enabled. Needs a controller with --gates, which lifts the gate."
        ),
    )
    injection: Mode = Field(
        default=Mode.EXCLUDE,
        description="How pods are kept from nodes that cannot align them: exclude those classes (new"
        " nodes stay eligible, so autoscalers keep working), include only the others, prefer them, or off.",
    )
    unknown_nodes: UnknownNodes = Field(
        default="may-fit",
        description=(
            "Whether a pod may be admitted for a node without NUMA topology: may-fit, if it may"
            " be scheduled there and the Node is large enough in total; cannot-fit, if such nodes"
            " never run pods that must be aligned."
        ),
    )
    workloads: Workloads = Field(
        default=Workloads.WARN,
        description=(
            "What to do with a Deployment, Job or other workload whose pods no node could ever"
            " align: warn, deny, or off."
        ),
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """One certificate, and an API server to read it from if it is in a Secret."""
        files = ("tls_cert", "tls_key", "insecure_http")
        for clash in super().contradictions():
            # A Secret takes the place of files.
            if clash.names != files or not self.tls_secret:
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
