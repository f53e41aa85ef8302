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
        description="File to which a line of JSON is appended for each review that is refused, or - for"
        " standard output. It does not depend on --log-level. A file that is moved away is made anew, so"
        " whoever rotates it sends no signal. By default there is none.",
    )
    count_pods: bool = Field(
        default=True,
        description="Watch pods too: count by namespace those that fall short of what it asks for, and keep"
        " new pods away for a while from nodes that refused one like them. false saves the watch.",
    )
    gates: bool = Field(
        default=False,
        description="Have pods wait behind the scheduling gate numalign.io/placement where their namespace"
        " says so (numalign.io/gate: enabled). Only beside a controller with --gates, for nobody"
        " else lifts them.",
    )
    injection: Mode = Field(
        default=Mode.EXCLUDE,
        description="How pods are kept from nodes that cannot align them: exclude those classes (new"
        " nodes stay eligible, so autoscalers keep working), include only the others, prefer them, or off.",
    )
    unknown_nodes: UnknownNodes = Field(
        default="may-fit",
        description="Whether a node without topology saves a pod from refusal: may-fit, if the pod may go"
        " there and the node is large enough as a whole, as far as its Node object tells. cannot-fit means"
        " that such nodes never take pods that must be aligned.",
    )
    workloads: Workloads = Field(
        default=Workloads.WARN,
        description="What happens to a Deployment, Job or the like whose pods no node could ever align: warn"
        " whoever applies it, deny it, or off.",
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
