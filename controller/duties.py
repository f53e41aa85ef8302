"""All pod-related parts of the controller."""

from controller.cluster_map import serve_map
from controller.gates.duty import look_after_gates
from controller.healing.duty import look_after_misaligned
from controller.placing import PodDuty
from controller.refused.duty import look_after_refused
from controller.reports.duty import look_after_reports, tell_owners

DUTIES: tuple[PodDuty, ...] = (
    look_after_gates,
    look_after_refused,
    look_after_misaligned,
    look_after_reports,
    tell_owners,
    serve_map,
)
"""Each does nothing if its setting is off."""
