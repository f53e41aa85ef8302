"""Whether a pod is refused for what shapes of nodes there are, or only warned of."""

from dataclasses import dataclass
from enum import StrEnum


class Reaction(StrEnum):
    """What happens to a pod that cannot run as things are known."""

    DENY = "deny"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Refusals:
    """When a pod is refused for the shapes that are known, and not for what its namespace asks.

    `never` is for pods that no shape could take, `unknown_resources` for those that ask for a resource that
    none has ever listed. With `unknown_may_fit`, a node without topology that is large enough may take a pod.
    """

    never: Reaction = Reaction.DENY
    unknown_resources: Reaction = Reaction.WARN
    unknown_may_fit: bool = True
