"""The settings of every program that answers for a cluster."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from numalign.model.intent import Match
from numalign.runtime.clock import seconds
from numalign.runtime.server_settings import ServerSettings, ServingSettings
from numalign.runtime.settings import Contradiction, Settings

# RFC 1123, as Kubernetes asks of the names of nearly everything.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _named(text: str) -> str:
    """Return a name that an object can have; raise `ValueError` for any other text."""
    if _NAME.fullmatch(text):
        return text
    raise ValueError("a Kubernetes name consists of lowercase letters, digits, - and dots")


Name = Annotated[str, AfterValidator(_named)]


def _span(text: str) -> str:
    seconds(text)
    return text


Span = Annotated[str, AfterValidator(_span)]


class SourceSettings(Settings):
    """Access to the cluster."""

    snapshot: Path | None = Field(
        default=None,
        description=(
            "File with nodes, their topologies and namespaces, as written by `kubectl numa snapshot`"
            " (JSON or YAML, optionally gzipped). It is used instead of the API server. To update it,"
            " rename another file over it: a partly written YAML file can look complete."
        ),
    )
    kubeconfig: str | None = Field(
        default=None,
        description=(
            "Kubeconfig of the cluster. By default $KUBECONFIG; without it, the service account inside a"
            " pod, and ~/.kube/config elsewhere."
        ),
    )
    context: str | None = Field(
        default=None,
        description="Context of the kubeconfig; by default its current context.",
    )
    namespace: Name | None = Field(
        default=None,
        description=(
            "Namespace of the program itself, where it keeps its Lease and its certificate. By default"
            " the namespace of the pod, or of the kubeconfig's context."
        ),
    )
    kubelet_configs: bool = Field(
        default=False,
        description=(
            "Read the configuration of every kubelet through the API server's node proxy, at a low rate,"
            " so that verdicts take kubelet options into account. Off by default, because access to"
            " nodes/proxy is a powerful permission."
        ),
    )

    remember_shapes: Span = Field(
        default="30d",
        description=(
            "How long to remember node shapes after their last node is gone, such as 30d or 12h. A pod"
            " that only fits a remembered shape is admitted with a warning, because node pools that scale"
            " to zero come back. With 0, such pods are denied."
        ),
    )

    @property
    def remember_seconds(self) -> float:
        """`remember_shapes` in seconds."""
        return seconds(self.remember_shapes)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a contradiction if both a snapshot and an API server are configured."""
        yield from super().contradictions()
        for name in ("kubeconfig", "context", "kubelet_configs"):
            if self.snapshot and getattr(self, name):
                yield Contradiction(
                    ("snapshot", name), "--snapshot cannot be combined with an API server: remove one of them"
                )


class ProgramSettings(SourceSettings, ServingSettings):
    """Settings of every program that runs in a cluster."""


class NamespaceMetricsSettings(Settings):
    """Metrics by namespace."""

    named_namespaces: int = Field(
        default=0,
        ge=0,
        le=1000,
        description=(
            "Maximum number of namespaces that metrics name; the pods of all others are counted together,"
            " under an empty namespace. By default none is named: every client that reaches the port for"
            " metrics can read them."
        ),
    )


UnknownNodes = Literal["cannot-fit", "may-fit"]
"""What is taken for granted of nodes without topology, and of pods that must be aligned."""


class PolicySettings(ProgramSettings):
    """Cluster policy."""

    policy_match: Match = Field(
        default=Match.SATISFIES,
        description=(
            "Which nodes match a pod by their Topology Manager policy: satisfies accepts every node that"
            " can align the pod as it requests; equal accepts only nodes whose policy equals the pod's,"
            " as Volcano does."
        ),
    )
    policy: Path | None = Field(
        default=None,
        description=(
            "YAML file with the cluster policy: defaults by namespace selector, and exemptions. An"
            " invalid file is rejected as a whole, and the previous policy stays in force."
        ),
    )
    policy_reload_seconds: float = Field(
        default=10.0,
        ge=0,
        description=(
            "How often, in seconds, to check whether the policy file has changed; 0 disables the check."
        ),
    )


class ClusterSettings(PolicySettings, ServerSettings):
    """Snapshot file."""

    snapshot_reload_seconds: float = Field(
        default=2.0,
        ge=0,
        description=(
            "How often, in seconds, to check whether the snapshot has changed; 0 disables the check."
        ),
    )
