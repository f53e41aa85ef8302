"""What the controller can be told."""

from collections.abc import Iterator

from pydantic import Field

from certs.settings import PairSettings
from controller.map_settings import MapSettings
from numalign.kube.settings import Name, PolicySettings, UnknownNodes
from numalign.ledger.reservations import KEPT_SECONDS
from numalign.runtime.settings import Contradiction


class ControllerSettings(PairSettings, MapSettings, PolicySettings):
    """The controller."""

    label_nodes: bool = Field(
        default=True,
        description="Label nodes with their class. false where another program does.",
    )
    gates: bool = Field(
        default=False,
        description="Choose the nodes of pods that wait behind the gate numalign.io/placement, and lift it.",
    )
    gate_patience_seconds: float = Field(
        default=30.0,
        ge=0,
        description="How long, in seconds since it was created, a pod waits behind the gate for zones. Then"
        " it is let go without a pin, so that its scheduler says why it cannot be placed and autoscalers hear"
        " of it. 0 waits without end, for clusters that do not grow.",
    )
    pin_patience_seconds: float = Field(
        default=KEPT_SECONDS,
        gt=0,
        description="How long, in seconds, zones are kept for a pod that was pinned and is not seen bound."
        " After that an Event says so on the pod, and others may have them.",
    )
    heal: bool = Field(
        default=False,
        description="Remove pods that kubelets refused, and move misaligned ones, in namespaces whose label"
        " numalign.io/heal says so.",
    )
    keep_refused: int = Field(
        default=3,
        ge=0,
        le=100,
        description="How many pods that a kubelet refused are kept of each owner, those that were made last,"
        " where --heal removes them.",
    )
    heal_per_minute: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="How many misaligned pods of the cluster are asked to go in a minute, at the most.",
    )
    heal_owner_seconds: float = Field(
        default=600.0,
        ge=0,
        description="Seconds between two misaligned pods of one owner that are asked to go, at the least.",
    )
    heal_node_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds between two misaligned pods on one node that are asked to go, at the least.",
    )
    policy_reports: bool = Field(
        default=False,
        description="Write PolicyReports (wgpolicyk8s.io/v1alpha2) of running pods: whether they are aligned,"
        " meet the levels of their namespace, and would be admitted today; and a ClusterPolicyReport of"
        " nodes, whose topology is missing or stale. Where the API server serves these kinds.",
    )
    owner_events: bool = Field(
        default=False,
        description="Tell the owners of pods (Deployment, Job, ...) by an Event that these ask for less than"
        " their namespace wants by numalign.io/warn.",
    )
    unknown_nodes: UnknownNodes = Field(
        default="cannot-fit",
        description="Whether a pod that must be aligned is placed on a node without topology: cannot-fit,"
        " for nobody knows whether it would be; may-fit where that is better than waiting.",
    )
    dry_run: bool = Field(
        default=False,
        description="Print which node labels would change, with --heal also which pods would go, and end,"
        " without writing or serving anything.",
    )
    tls_days: int = Field(
        default=90,
        ge=1,
        le=3650,
        description="Days for which the certificate in --tls-secret is made; it is renewed after two thirds.",
    )
    webhook_configuration: Name = Field(
        default="zz-numalign",
        description="Name of the webhook configurations, mutating and validating, in which the authority of"
        " the certificate in --tls-secret is kept up to date.",
    )

    @property
    def looks_after_pods(self) -> bool:
        """Whether anything is to be done about pods."""
        return self.gates or self.heal

    @property
    def unknown_may_fit(self) -> bool:
        """What the webhook takes for granted of nodes without topology: by default the opposite of here."""
        return self.unknown_nodes == "may-fit" or "unknown_nodes" not in self.model_fields_set

    @property
    def watches_pods(self) -> bool:
        """Whether pods are to be known, to do something about them, to show them or to tell of them."""
        return self.looks_after_pods or self.map or self.policy_reports or self.owner_events

    def contradictions(self) -> Iterator[Contradiction]:
        """A file can be looked at, and nothing can be written there."""
        yield from super().contradictions()
        if self.snapshot and not self.dry_run:
            yield Contradiction(
                ("snapshot", "dry_run"), "a file has no nodes that could be labelled: give --dry-run too"
            )
