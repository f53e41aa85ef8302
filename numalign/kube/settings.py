"""The settings of every program that answers for a cluster."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from numalign.model.intent import Match
from numalign.runtime.server_settings import ServerSettings, ServingSettings
from numalign.runtime.settings import Contradiction, Settings
from numalign.runtime.spans import seconds

# RFC 1123, as Kubernetes asks of the names of nearly everything.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _named(text: str) -> str:
    """A name that an object can have; raises `ValueError`."""
    if _NAME.fullmatch(text):
        return text
    raise ValueError("a name in Kubernetes has small letters, digits and -, with dots between its parts")


Name = Annotated[str, AfterValidator(_named)]


def _span(text: str) -> str:
    seconds(text)
    return text


Span = Annotated[str, AfterValidator(_span)]


class SourceSettings(Settings):
    """Where a program learns what the cluster is."""

    snapshot: Path | None = Field(
        default=None,
        description="File of nodes, their topologies and namespaces, as `kubectl numa snapshot` writes"
        " it (JSON or YAML, gzip understood). Answers come from it, in place of the API server."
        " Replace it by renaming another file over it: YAML that is cut off can look whole.",
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
        description="Namespace of the program itself: there it keeps its lease and its certificate. By"
        " default the one of the pod, or of the kubeconfig's context.",
    )
    kubelet_configs: bool = Field(
        default=False,
        description="Read the configuration of every kubelet through the API server's node proxy, slowly."
        " Verdicts then know its options. Off by default, for the right to nodes/proxy is a strong one.",
    )

    remember_shapes: Span = Field(
        default="30d",
        description=(
            "How long node shapes are remembered after their last node is gone, as 30d or 12h. A"
            " pod that only fits a remembered shape is admitted with a warning, because node pools"
            " that scale to zero come back. With 0 such pods are denied."
        ),
    )

    @property
    def remember_seconds(self) -> float:
        """`remember_shapes` in seconds."""
        return seconds(self.remember_shapes)

    def contradictions(self) -> Iterator[Contradiction]:
        """One source."""
        yield from super().contradictions()
        for name in ("kubeconfig", "context", "kubelet_configs"):
            if self.snapshot and getattr(self, name):
                yield Contradiction(
                    ("snapshot", name), "--snapshot cannot be combined with an API server: remove one of them"
                )


class ProgramSettings(SourceSettings, ServingSettings):
    """What every program that goes on running beside a cluster can be told."""


UnknownNodes = Literal["cannot-fit", "may-fit"]
"""What is taken for granted of nodes without topology, and of pods that must be aligned."""


class PolicySettings(ProgramSettings):
    """What a program that reads pods takes for granted of what is asked of them."""

    policy_match: Match = Field(
        default=Match.SATISFIES,
        description=(
            "Which Topology Manager policies of nodes match a pod: satisfies accepts every node"
            " that can align the pod as it requests; equal only nodes whose policy equals the"
            " pod's, as Volcano does."
        ),
    )
    policy: Path | None = Field(
        default=None,
        description=(
            "YAML file with the cluster policy: defaults by namespace selector, and exemptions."
            " An invalid file is rejected as a whole, and the previous one stays in force."
        ),
    )
    policy_reload_seconds: float = Field(
        default=10.0,
        ge=0,
        description="How often, in seconds, to look whether the policy file has changed; 0 never does.",
    )


class ClusterSettings(PolicySettings, ServerSettings):
    """What a webhook or an extender makes of the cluster that it answers for."""

    snapshot_reload_seconds: float = Field(
        default=2.0,
        ge=0,
        description="How often, in seconds, to look whether the snapshot has changed; 0 never does.",
    )
