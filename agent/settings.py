"""What the agent can be told."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from agent.publish import Publish
from numalign.runtime.process_settings import ProcessSettings
from numalign.runtime.settings import Contradiction, Settings


class KubeletSettings(Settings):
    """The kubelet beside which it runs."""

    node_name: str | None = Field(
        default=None,
        description="Name of the node. By default that in the variable NODE_NAME.",
    )
    podresources_socket: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        description="Socket on which the kubelet lists what its containers hold. Mount its folder, for after"
        " a restart the socket is another file.",
    )
    kubelet_state: Path = Field(
        default=Path("/var/lib/kubelet"),
        description="Folder in which the kubelet keeps its checkpoints. They tell when something changed, and"
        " pods of one name apart. Where it is not there, the kubelet is asked each second.",
    )
    sysfs: Path = Field(
        default=Path("/sys"),
        description="Where the kernel tells of zones, cores, distances and hugepages.",
    )
    node_address: str | None = Field(
        default=None,
        description="Address at which the kubelet is asked for its configuration and its pods. By default"
        " that in the variable NODE_ADDRESS, and else it is asked through the API server.",
    )
    kubelet_port: int = Field(
        default=10250,
        ge=1,
        le=65535,
        description="Port of the kubelet at that address.",
    )
    kubelet_ca: Path | None = Field(
        default=None,
        description=(
            "PEM file of the authority that signs the kubelet's serving certificate. By default"
            " it is not checked: mostly the kubelet has signed it itself, and it is asked on its"
            " own node."
        ),
    )
    kubelet_config: Path | None = Field(
        default=None,
        description="YAML or JSON file with the kubelet's configuration, for where it may not be asked. What"
        " drop-in files or flags change is not in it.",
    )


class PublishingSettings(Settings):
    """What it publishes."""

    publish: Publish = Field(
        default=Publish.IF_ABSENT,
        description="When to write the zones of the node's NodeResourceTopology: if-absent unless another"
        " exporter has written them, always in its place, never not at all. Annotations are written"
        " in any case, never only on an object that is there.",
    )
    annotate_pods: bool = Field(
        default=False,
        description="Write on each pod what it holds, too (numalign.io/placement-observed), for programs that"
        " read pods alone.",
    )
    output: str | None = Field(
        default=None,
        description="File into which to write the topology as JSON in place of the cluster; - for standard"
        " output, one line for each change.",
    )
    once: bool = Field(
        default=False,
        description="Look once, publish, and end: with 0, or with 1 if that failed.",
    )
    resync_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="How often, in seconds, to look without an occasion.",
    )
    heartbeat_seconds: float = Field(
        default=300.0,
        gt=0,
        le=3600,
        description="How often, in seconds, to write although nothing changed, so that readers can tell an"
        " agent that is gone.",
    )
    kubeconfig: str | None = Field(
        default=None,
        description="Which API server to write to. By default that of $KUBECONFIG or ~/.kube/config, and"
        " inside a pod the one that it runs under. A token in it is read once.",
    )
    context: str | None = Field(
        default=None,
        description="Context of the kubeconfig; by default its current one.",
    )


class AgentSettings(KubeletSettings, PublishingSettings, ProcessSettings):
    """The agent."""

    def contradictions(self) -> Iterator[Contradiction]:
        """A node, and one place to write to."""
        yield from super().contradictions()
        if not self.node_name:
            yield Contradiction(
                ("node_name",), "is needed: the name of the node, as kubectl get nodes shows it"
            )
        if self.annotate_pods and self.output:
            yield Contradiction(
                ("annotate_pods", "output"), "a file has no pods to annotate: keep one of them"
            )
