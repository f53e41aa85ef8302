"""All pod-related parts of the controller."""

from controller.cluster_map import map_tasks
from controller.gates.duty import gate_tasks
from controller.healing.duty import healing_tasks
from controller.placing import PodDuty
from controller.refused.duty import refused_pod_tasks
from controller.reports.duty import owner_event_tasks, report_tasks

DUTIES: tuple[PodDuty, ...] = (
    gate_tasks,
    refused_pod_tasks,
    healing_tasks,
    report_tasks,
    owner_event_tasks,
    map_tasks,
)
"""Each does nothing if its setting is off."""
