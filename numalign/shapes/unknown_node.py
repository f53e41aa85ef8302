"""What is known of a node without a known topology."""

from dataclasses import dataclass

from numalign.model.attributes import NO_ATTRIBUTES, Attributes
from numalign.model.resources import Resources


@dataclass(frozen=True, slots=True)
class UnknownNode:
    """A node without topology, from its Node object.

    `totals` is what it may allocate as a whole: for devices the larger of allocatable and capacity, because
    their plugin may be down. None if not reported. `label` is the class in its label.
    """

    name: str
    totals: Resources | None = None
    attributes: Attributes = NO_ATTRIBUTES
    label: str | None = None
