"""What is measured of the map is a cluster whose pods are seen, and every view of it."""

from numalign.map.pods_on_node import everybody
from numalign.map.views import Condition, FleetQuery
from tools.bench import map_views


async def test_the_cluster_has_its_pods_and_one_in_ten_is_misaligned() -> None:
    made = await map_views.site(20, 200)

    fleet = await made.map_state.fleet(FleetQuery())
    node = await made.map_state.node("node-00000", everybody)

    assert (fleet.count_all, sum(tile.pods for group in fleet.groups for tile in group.tiles)) == (20, 200)
    assert fleet.counts[Condition.MISALIGNED] > 0
    assert node
    assert {len(pod.held) for pod in node.pods} == {2}


async def test_every_view_is_measured() -> None:
    rows = await map_views.rows(20, 40)

    assert [row.view for row in rows][:2] == ["fleet, cold", "fleet, after one change"]
    assert len(rows) == 9
    assert all(row.seconds > 0 for row in rows)
