"""Which zones are written: the values that settings and the publisher share."""

from enum import StrEnum


class Publish(StrEnum):
    """When the zones are written; the annotations always are."""

    IF_ABSENT = "if-absent"
    ALWAYS = "always"
    NEVER = "never"
