"""The map of the cluster, served by every replica, leader or not: it writes nothing."""

from controller.placing import Placing
from numalign.kube.compose import Background
from numalign.map.access import TokenAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState


def map_tasks(placing: Placing) -> Background:
    """Serve the map to users with access, if it is enabled."""
    settings = placing.settings
    if not settings.map:
        return Background()
    access = TokenAccess(
        placing.api,
        audience=settings.map_audience,
        review_seconds=settings.map_review_seconds,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
    )
    map_state = MapState(placing.state)
    service = MapService(
        map_state, access, Streams(placing.registry), log=placing.log, waiting_for=placing.waiting_for
    )
    placing.cache_getters.append(access.caches)
    return Background({"map": service.follow}, installs=(service.install,))
