"""The settings of the agent."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from agent.options import Publish
from numalign.runtime.settings import Contradiction, ProcessSettings, Settings


class KubeletSettings(Settings):
    """Node and kubelet."""

    node_name: str | None = Field(
        default=None,
        description="Name of the node. By default the value of the environment variable NODE_NAME.",
    )
    podresources_socket: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        description="Socket of the kubelet's PodResources API. Mount its directory, because a restarted"
        " kubelet creates a new socket.",
    )
    kubelet_state: Path = Field(
        default=Path("/var/lib/kubelet"),
        description="Directory of the kubelet's checkpoints. The agent uses them to notice changes and to"
        " tell pods of the same name apart. Without them it polls the kubelet every second.",
    )
    sysfs: Path = Field(
        default=Path("/sys"),
        description="Path of sysfs, from which the agent reads NUMA zones, cores, distances and hugepages.",
    )
    node_address: str | None = Field(
        default=None,
        description="Address at which to ask the kubelet for its configuration and its pods. By default the"
        " value of the environment variable NODE_ADDRESS; if that is not set either, the agent asks through"
        " the API server.",
    )
    kubelet_port: int = Field(
        default=10250, ge=1, le=65535, description="Port of the kubelet at that address."
    )
    kubelet_ca: Path | None = Field(
        default=None,
        description="PEM file with the CA of the kubelet's serving certificate. By default the certificate"
        " is not verified: it is usually self-signed, and the connection does not leave the node.",
    )
    kubelet_config: Path | None = Field(
        default=None,
        description="YAML or JSON file with the kubelet's configuration, for clusters where the agent may"
        " not ask the kubelet. Changes by drop-in files or flags are not in it.",
    )


class PublishingSettings(Settings):
    """Publishing."""

    publish: Publish = Field(
        default=Publish.IF_ABSENT,
        description="When to write the zones of the node's NodeResourceTopology: if-absent writes them"
        " unless another exporter does, always writes them in its place, never does not write them."
        " Annotations are always written, but with never only on an object that exists.",
    )
    annotate_pods: bool = Field(
        default=False,
        description="Also write what each pod holds on the pod itself (numalign.io/placement-observed), for"
        " programs that read only pods.",
    )
    output: str | None = Field(
        default=None,
        description="File to which the topology is written as JSON instead of to the cluster, or - for"
        " standard output, one line per change.",
    )
    once: bool = Field(
        default=False,
        description="Observe the node once, publish the result, and exit with 0, or with 1 on failure.",
    )
    resync_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Interval in seconds at which to observe the node even if nothing indicates a change.",
    )
    heartbeat_seconds: float = Field(
        default=300.0,
        gt=0,
        le=3600,
        description="Interval in seconds at which to write even if nothing changed, so that readers can"
        " recognize an agent that is gone.",
    )
    kubeconfig: str | None = Field(
        default=None,
        description="Kubeconfig of the cluster. By default $KUBECONFIG; without it, the service account"
        " inside a pod, and ~/.kube/config elsewhere. A token in it is read once.",
    )
    context: str | None = Field(
        default=None, description="Context of the kubeconfig; by default its current context."
    )


class AgentSettings(KubeletSettings, PublishingSettings, ProcessSettings):
    """The agent."""

    def contradictions(self) -> Iterator[Contradiction]:
        """Check that a node is named, and that there is one place to write to."""
        yield from super().contradictions()
        if not self.node_name:
            yield Contradiction(
                ("node_name",), "is required: the name of the node, as kubectl get nodes shows it"
            )
        if self.annotate_pods and self.output:
            yield Contradiction(
                ("annotate_pods", "output"),
                ("with an output file there are no pods to annotate: remove one of them"),
            )
