"""
What the webhook of a cluster is told.

Who asks here what the webhook would say must tell the same, and gets the same answer.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the webhook, by its own names; `policy` is a file."""

    policy: str | None = None


DEFAULTS = Settings()
"""What an installed webhook is told unless somebody says otherwise."""
