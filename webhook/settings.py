"""The settings of the webhook, in addition to those of every program."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from certs.settings import PairSettings
from numalign.kube.settings import ClusterSettings, NamespaceMetricsSettings, UnknownNodes
from numalign.runtime.settings import Contradiction
from webhook.patch import Mode
from webhook.workloads import Workloads


class WebhookSettings(PairSettings, NamespaceMetricsSettings, ClusterSettings):
    """The webhook."""

    # Of a review longer than 4 MiB: what is long in a pod that an API server stores is text.
    most_values: ClassVar[int] = 1_200_000

    audit_log: str | None = Field(
        default=None,
        description="File to which one line of JSON is appended for each denied review, or - for standard"
        " output. Independent of --log-level. The file is reopened after it has been moved, so log rotation"
        " needs no signal. By default nothing is written.",
    )
    count_pods: bool = Field(
        default=True,
        description="Watch pods, to count those below the levels of their namespace and to keep new pods away"
        " for a while from nodes whose kubelet rejected a similar pod. false saves the watch.",
    )
    gates: bool = Field(
        default=False,
        description="Add the scheduling gate numalign.io/placement to pods in namespaces labelled"
        " numalign.io/gate: enabled. Requires a controller with --gates, which lifts the gate.",
    )
    injection: Mode = Field(
        default=Mode.EXCLUDE,
        description="How node affinity keeps pods off nodes that cannot align them: exclude the classes of"
        " such nodes (new nodes stay eligible, so autoscalers keep working), include only the other classes,"
        " prefer them, or off.",
    )
    unknown_nodes: UnknownNodes = Field(
        default="may-fit",
        description="Whether to admit a pod for a node without NUMA topology: may-fit admits it if it may be"
        " scheduled there and the Node is large enough in total; cannot-fit assumes that such nodes never"
        " run pods that must be aligned.",
    )
    workloads: Workloads = Field(
        default=Workloads.WARN,
        description="What to do with a Deployment, Job or other workload whose pods no node could ever align:"
        " warn, deny, or off.",
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Check for one certificate, and for an API server to read it from if it is in a Secret."""
        files = ("tls_cert", "tls_key", "insecure_http")
        for clash in super().contradictions():
            # A Secret replaces the files.
            if clash.names != files or not self.tls_secret:
                yield clash
        if self.tls_secret and (self.tls_cert or self.tls_key or self.insecure_http):
            yield Contradiction(
                ("tls_secret", *files),
                "a certificate in a Secret, a certificate in files and plain HTTP cannot be combined: keep"
                " one of them",
            )
        if self.tls_secret and self.snapshot:
            yield Contradiction(
                ("tls_secret", "snapshot"),
                "a Secret requires an API server, and --snapshot uses none: set --tls-cert and --tls-key"
                " instead",
            )
