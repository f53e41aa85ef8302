"""All that the controller does about pods."""

from controller.gates.duty import look_after_gates
from controller.placing import PodDuty
from controller.refused.duty import look_after_refused

DUTIES: tuple[PodDuty, ...] = (look_after_gates, look_after_refused)
"""Each does nothing where its setting is off."""
