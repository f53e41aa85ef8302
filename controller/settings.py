"""The settings of the controller."""

from collections.abc import Iterator

from pydantic import Field

from certs.settings import PairSettings
from controller.map_settings import MapSettings
from numalign.kube.settings import Name, NamespaceMetricsSettings, PolicySettings, UnknownNodes
from numalign.ledger.reservations import KEPT_SECONDS
from numalign.runtime.settings import Contradiction


class ControllerSettings(PairSettings, MapSettings, NamespaceMetricsSettings, PolicySettings):
    """The controller."""

    label_nodes: bool = Field(
        default=True,
        description=(
            "Label nodes with their class and, with --gates, their name. Set it to false if another program"
            " does."
        ),
    )
    gates: bool = Field(
        default=False,
        description=(
            "Choose nodes for pods behind the scheduling gate numalign.io/placement, reserve their NUMA"
            " zones, and lift the gate."
        ),
    )
    gate_patience_seconds: float = Field(
        default=30.0,
        ge=0,
        description=(
            "Seconds that a pod waits behind the gate for zones, from when a controller sees it. After that"
            " the gate is lifted without a pin, so that the scheduler reports why the pod is unschedulable"
            " and autoscalers react, unless a kubelet would then reject it. 0 waits forever, for clusters"
            " that do not grow."
        ),
    )
    pin_patience_seconds: float = Field(
        default=KEPT_SECONDS,
        gt=0,
        description=(
            "Seconds that NUMA zones stay reserved for a pinned pod that is not seen bound. After that"
            " they are released, and the pod gets an Event. While pods of other namespaces find no room,"
            " that is after half of --gate-patience-seconds, unless pods of the same namespace that were"
            " pinned earlier are still being bound."
        ),
    )
    heal: bool = Field(
        default=False,
        description=(
            "Delete pods that kubelets rejected, and evict misaligned pods, in namespaces that opt in by"
            " the label numalign.io/heal."
        ),
    )
    keep_refused: int = Field(
        default=3,
        ge=0,
        le=100,
        description=(
            "Number of rejected pods of each owner to keep, newest first, when --heal deletes them."
        ),
    )
    heal_per_minute: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="Maximum evictions of misaligned pods per minute, in the whole cluster.",
    )
    heal_owner_seconds: float = Field(
        default=600.0,
        ge=0,
        description="Minimum seconds between two evictions of misaligned pods of the same owner.",
    )
    heal_node_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Minimum seconds between two evictions of misaligned pods on the same node.",
    )
    policy_reports: bool = Field(
        default=False,
        description=(
            "Write PolicyReports (wgpolicyk8s.io/v1alpha2) about running pods: whether they are aligned,"
            " meet the levels of their namespace, and would be admitted today. Also write a"
            " ClusterPolicyReport about nodes whose topology is missing or stale. Reports are written"
            " once the API server serves these kinds."
        ),
    )
    owner_events: bool = Field(
        default=False,
        description=(
            "Write an Event on the owner (Deployment, Job, ...) of pods that request less than the level"
            " numalign.io/warn of their namespace."
        ),
    )
    unknown_nodes: UnknownNodes = Field(
        default="cannot-fit",
        description=(
            "Whether a pod that must be aligned may be placed on a node without NUMA topology:"
            " cannot-fit, or may-fit if a misaligned pod is better than a pending one."
        ),
    )
    dry_run: bool = Field(
        default=False,
        description=(
            "Print which node labels would change and, with --heal, which pods would be deleted or"
            " evicted; then exit. Nothing is written or served."
        ),
    )
    tls_days: int = Field(
        default=90,
        ge=1,
        le=3650,
        description=(
            "Validity of the certificate in --tls-secret, in days. It is renewed after two thirds of that"
            " time."
        ),
    )
    webhook_configuration: Name = Field(
        default="zz-numalign",
        description=(
            "Name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration whose CA"
            " bundle is kept in line with the certificate in --tls-secret."
        ),
    )

    @property
    def acts_on_pods(self) -> bool:
        """Return whether any part acts on pods."""
        return self.gates or self.heal

    @property
    def unknown_may_fit(self) -> bool:
        """Return what the webhook assumes of nodes without topology: by default the opposite of here."""
        return self.unknown_nodes == "may-fit" or "unknown_nodes" not in self.model_fields_set

    @property
    def watches_pods(self) -> bool:
        """Return whether to watch all pods, and not only failed ones, because some part needs them."""
        return self.acts_on_pods or self.map or self.policy_reports or self.owner_events

    def contradictions(self) -> Iterator[Contradiction]:
        """Check that a file is only read, because nothing can be written to it."""
        yield from super().contradictions()
        if self.snapshot and not self.dry_run:
            yield Contradiction(
                ("snapshot", "dry_run"), "nodes of a snapshot cannot be labelled: add --dry-run"
            )
