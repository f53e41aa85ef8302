"""All that the controller does about pods."""

from controller.gates.duty import look_after_gates
from controller.placing import PodDuty

DUTIES: tuple[PodDuty, ...] = (look_after_gates,)
"""Each does nothing where its setting is off."""
