"""What the controller reports of running pods and of nodes."""

from controller.placing import Placing
from controller.reports.offenders import OffenderReports
from controller.reports.owner_events import OwnerEvents
from controller.reports.writer import ReportWriter
from numalign.kube.compose import Background


def owner_event_tasks(placing: Placing) -> Background:
    """Write events on the owners of pods below the level of their namespace, if that is enabled."""
    if not placing.settings.owner_events:
        return Background()
    events = OwnerEvents(
        api=placing.api,
        state=placing.state,
        leading=placing.leading,
        publish=placing.publish,
        log=placing.log,
        sleep=placing.sleep,
    )
    placing.watch(events.update_pod)
    return Background({"owners": events.run})


def report_tasks(placing: Placing) -> Background:
    """Keep policy reports up to date, if that is enabled."""
    if not placing.settings.policy_reports:
        return Background()
    offenders = OffenderReports(
        state=placing.state, unknown_may_fit=placing.settings.unknown_may_fit, wall=placing.wall
    )
    placing.watch(offenders.alignments.update_pod)
    placing.cache_getters.append(offenders.caches)
    writer = ReportWriter(
        api=placing.api,
        reports=offenders.reports,
        leading=placing.leading,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        wall=placing.wall,
        sleep=placing.sleep,
    )
    return Background({"reports": writer.run})
