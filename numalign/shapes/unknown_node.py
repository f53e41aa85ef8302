"""What is known of a node whose topology is not."""

from dataclasses import dataclass

from numalign.model.attributes import NO_ATTRIBUTES, Attributes
from numalign.model.resources import Resources


@dataclass(frozen=True, slots=True)
class UnknownNode:
    """A node without topology, as its Node object tells of it.

    `totals` is what it may give out as a whole: of devices the larger of allocatable and capacity, for their
    plugin may be down. None where nothing is told. `label` is the class that it is labelled with.
    """

    name: str
    totals: Resources | None = None
    attributes: Attributes = NO_ATTRIBUTES
    label: str | None = None
