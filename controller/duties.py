"""All that the controller does about pods."""

from controller.gates.duty import look_after_gates
from controller.healing.duty import look_after_misaligned
from controller.placing import PodDuty
from controller.refused.duty import look_after_refused

DUTIES: tuple[PodDuty, ...] = (look_after_gates, look_after_refused, look_after_misaligned)
"""Each does nothing where its setting is off."""
