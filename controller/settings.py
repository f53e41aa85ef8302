"""What the controller can be told."""

from collections.abc import Iterator

from pydantic import Field

from certs.settings import PairSettings
from numalign.kube.settings import Name, ProgramSettings
from numalign.runtime.settings import Contradiction


class ControllerSettings(PairSettings, ProgramSettings):
    """The controller."""

    label_nodes: bool = Field(
        default=True,
        description="Label nodes with their class. false where another program does.",
    )
    dry_run: bool = Field(
        default=False,
        description="Print which node labels would change and end, without writing or serving anything.",
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

    def contradictions(self) -> Iterator[Contradiction]:
        """A file can be looked at, and nothing can be written there."""
        yield from super().contradictions()
        if self.snapshot and not self.dry_run:
            yield Contradiction(
                ("snapshot", "dry_run"), "a file has no nodes that could be labelled: give --dry-run too"
            )
