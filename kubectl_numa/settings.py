"""
What the webhook of a cluster is told.

Who asks here what the webhook would say must tell the same, and gets the same answer.
"""

from dataclasses import dataclass

from numalign.model.intent import Match
from numalign.shapes.history import REMEMBER_SECONDS


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the webhook that decide about pods, by its own names.

    `policy` is a file. Shapes are remembered for so many seconds. `user` is who creates the pods.
    """

    policy: str | None = None
    match: Match = Match.SATISFIES
    unknown_may_fit: bool = True
    remember: float = REMEMBER_SECONDS
    user: str = ""


DEFAULTS = Settings()
"""What an installed webhook is told unless somebody says otherwise."""
