"""What the webhook can be told, beyond what every server can."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from numalign.rules.intent import Match
from numalign.runtime.serving import ServerSettings
from numalign.runtime.settings import Contradiction
from webhook.patch import Mode


class WebhookSettings(ServerSettings):
    """The webhook."""

    snapshot: Path | None = Field(
        default=None,
        description="File of nodes, their topologies and namespaces, as `kubectl numa snapshot` writes"
        " it (JSON or YAML, gzip understood). Reviews are answered from it. Replace it by renaming another"
        " file over it: YAML that is cut off can look whole.",
    )
    snapshot_reload_seconds: float = Field(
        default=2.0,
        ge=0,
        description="How often, in seconds, to look whether the snapshot has changed; 0 never does.",
    )
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

    def contradictions(self) -> Iterator[Contradiction]:
        """A source of nodes is needed."""
        yield from super().contradictions()
        if self.snapshot is None:
            yield Contradiction(("snapshot",), "give --snapshot FILE: reviews are answered from it")
