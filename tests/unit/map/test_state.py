"""The fleet as things change: what a tile says, which nodes changed when, and what is made anew for it."""

from dataclasses import replace

import pytest

from numalign.kube import selectors
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.exporters import STALE_SECONDS, TopologySource
from numalign.ledger.model import Basis
from numalign.map import state as map_state
from numalign.map.state import MapState
from numalign.map.views import Condition, Fleet, FleetQuery, NodeTile
from numalign.model.attributes import Attributes
from numalign.model.intent import Policy
from numalign.model.node import Node
from tests.worlds.notation import GPU, bag, node
from tests.worlds.scorer import (
    BOTH,
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    SINGLE,
    Scorer,
    on,
    raw,
    running,
    snapshot,
    uid,
    wall,
)

ALL = FleetQuery()


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


@pytest.fixture
def shown(scorer: Scorer) -> MapState:
    return MapState(scorer.state)


async def tile(shown: MapState, name: str = "a") -> NodeTile:
    """The tile of a node."""
    every = {tile.name: tile for group in (await shown.fleet(ALL)).groups for tile in group.tiles}
    return every[name]


def names(fleet: Fleet) -> list[list[str]]:
    """The shown nodes, by group."""
    return [[tile.name for tile in group.tiles] for group in fleet.groups]


async def test_a_tile_says_what_is_free_by_the_ledger(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))

    made = await tile(shown)

    assert [zone.free["cpu"] for zone in made.zones] == [4000, 8000]
    assert [zone.used(GPU) for zone in made.zones] == [1, 0]
    assert [zone.used_share("cpu") for zone in made.zones] == [0.5, 0.0]
    assert (made.policy, made.basis, made.pods, made.conditions) == (SINGLE, Basis.OBSERVED, 1, frozenset())
    assert (made.source, made.age(wall(scorer.time))) == (TopologySource.EXPORTER, None)


async def test_a_reservation_counts_before_its_pod_is_bound(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY})
    scorer.reserve(raw(FOUR), "a")

    made = await tile(shown)

    assert [zone.free["cpu"] for zone in made.zones] == [4000, 8000]
    assert made.pods == 1


async def test_a_pod_across_zones_makes_its_node_misaligned(scorer: Scorer, shown: MapState) -> None:
    both = ObservedPlacement({("node-0",): bag("cpu=8 gpu=2"), ("node-1",): bag("cpu=8 gpu=2")}, 0)
    await scorer.know({"a": EMPTY}, placements={"a": {uid("web"): both}})
    scorer.see(running(on("a", raw("cpu=16 mem=1Gi gpu=4"), record=BOTH)))

    made = await tile(shown)

    assert (made.misaligned, made.conditions) == (1, frozenset({Condition.MISALIGNED}))


def ill(made: Node) -> Node:
    """The node once it has lost a device, cordoned and not ready."""
    lost = node("cpu=8 mem=16Gi gpu=1", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
    return replace(lost, health=made, attributes=Attributes(cordoned=True, ready=False))


async def test_what_is_wrong_with_a_node_stands_on_its_tile(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": ill(EMPTY)})

    made = await tile(shown)

    assert made.conditions == {Condition.CORDONED, Condition.NOT_READY, Condition.LACKING}
    assert dict(made.missing) == {GPU: 1}


async def test_an_agent_falls_silent_and_writes_again(scorer: Scorer, shown: MapState) -> None:
    seen = {"a": wall(scorer.time)}
    await scorer.state.update_snapshot(replace(snapshot({"a": EMPTY}), observed_at=seen))
    assert (await tile(shown)).conditions == frozenset()
    before = shown.revision

    scorer.time.seconds += STALE_SECONDS
    assert shown.revision == before
    scorer.time.seconds += 1

    assert shown.changed_since(before) == frozenset({"a"})
    assert (await tile(shown)).conditions == {Condition.STALE}
    seen["a"] = wall(scorer.time)
    assert (await tile(shown)).conditions == frozenset()
    assert (await tile(shown)).age(wall(scorer.time)) == 0.0


async def test_an_agent_that_keeps_writing_changes_nothing_but_its_age(
    scorer: Scorer, shown: MapState
) -> None:
    seen = {"a": wall(scorer.time)}
    await scorer.state.update_snapshot(replace(snapshot({"a": EMPTY}), observed_at=seen))
    await shown.refresh()
    before = shown.revision

    for _ in range(20):
        scorer.time.seconds += STALE_SECONDS / 2
        seen["a"] = wall(scorer.time)
        assert shown.revision == before

    assert (await tile(shown)).seen == seen["a"]


async def test_what_only_time_changes_is_noticed(scorer: Scorer, shown: MapState) -> None:
    """A pod of which nobody knows the zones counts everywhere, until the topology surely has it."""
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, policy=None))))
    assert [zone.free["cpu"] for zone in (await tile(shown)).zones] == [4000, 4000]
    before, until = shown.revision, scorer.reservations.valid_until("a")

    scorer.time.seconds = until - 1
    assert shown.revision == before
    scorer.time.seconds = until

    assert shown.changed_since(before) == frozenset({"a"})


async def test_only_nodes_that_changed_are_made_anew(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    before = {name: await tile(shown, name) for name in "ab"}
    revision = shown.revision

    scorer.see(running(on("a", raw(FOUR), record=HALF)))

    assert shown.changed_since(revision) == frozenset({"a"})
    assert await tile(shown, "a") != before["a"]
    assert await tile(shown, "b") is before["b"]
    assert shown.changed_since(shown.revision) == frozenset()


async def test_nodes_that_come_go_or_lose_their_topology_have_changed(
    scorer: Scorer, shown: MapState
) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY}, unknown=["c"])
    await shown.refresh()
    before = shown.revision

    await scorer.know({"b": EMPTY, "d": EMPTY}, unknown=["a"])

    assert {"a", "c", "d"} <= (shown.changed_since(before) or set())
    fleet = await shown.fleet(ALL)
    assert (names(fleet), fleet.unknown) == ([["b", "d"]], ("a",))


async def test_who_missed_too_much_is_told_so(
    scorer: Scorer, shown: MapState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_state, "MOST_CHANGED", 2)
    await scorer.know(dict.fromkeys("abcd", EMPTY))
    await shown.refresh()
    revision = shown.revision

    for at, name in enumerate("abc"):
        scorer.see(running(on(name, raw(FOUR, name=f"p{at}"), record=HALF)))

    assert shown.changed_since(revision) is None
    assert shown.changed_since(shown.revision - 1) == frozenset({"c"})
    assert shown.changed_since(shown.revision + 1) is None
    assert shown.changed_since(0) is None


async def test_the_fleet_stands_by_class_the_largest_first(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"b": EMPTY, "c": LOOSE, "a": EMPTY}, unknown=["x"])

    fleet = await shown.fleet(ALL)

    assert names(fleet) == [["a", "b"], ["c"]]
    assert [group.policy for group in fleet.groups] == [SINGLE, "none"]
    assert fleet.groups[0].free["cpu"] == fleet.groups[0].allocatable["cpu"] == 32_000
    assert (fleet.count_shown, fleet.count_all, fleet.unknown) == (4, 4, ("x",))
    assert (fleet.resources, fleet.policies) == (
        ("cpu", "memory", GPU),
        (Policy.NONE, Policy.SINGLE_NUMA_NODE),
    )
    assert fleet.counts[Condition.UNKNOWN] == 1


@pytest.mark.parametrize(
    ("query", "nodes", "unknown"),
    [
        (FleetQuery(policy=Policy.NONE), [["c"]], ()),
        (FleetQuery(selector=selectors.parse("rack=one")), [["a"]], ("x",)),
        (FleetQuery(only=frozenset({Condition.UNKNOWN})), [], ("x", "y")),
        (FleetQuery(only=frozenset({Condition.CORDONED})), [["d"]], ()),
        (FleetQuery(only=frozenset({Condition.CORDONED, Condition.UNKNOWN})), [["d"]], ("x", "y")),
        (FleetQuery(resource="example.com/nic", resource_required=True), [], ()),
        (FleetQuery(resource=GPU, resource_required=True, policy=Policy.NONE), [["c"]], ()),
        (FleetQuery(node_class="none-of-these"), [], ()),
    ],
)
async def test_a_query_shows_the_nodes_that_it_names(
    scorer: Scorer, shown: MapState, query: FleetQuery, nodes: list[list[str]], unknown: tuple[str, ...]
) -> None:
    cordoned = replace(EMPTY, attributes=Attributes(cordoned=True))
    labels = {"a": {"rack": "one"}, "x": {"rack": "one"}}
    await scorer.know({"a": EMPTY, "c": LOOSE, "d": cordoned}, unknown=["x", "y"], labels=labels)

    fleet = await shown.fleet(query)

    assert (names(fleet), fleet.unknown) == (nodes, unknown)
    assert (fleet.count_shown, fleet.count_all) == (sum(map(len, nodes)) + len(unknown), 5)


async def test_a_fleet_is_kept_while_nothing_changes(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY})
    first = await shown.fleet(ALL)

    assert await shown.fleet(ALL) is first
    assert await shown.fleet(FleetQuery(policy=Policy.NONE)) is not first
    scorer.time.seconds += 1
    assert (await shown.fleet(ALL)).now == first.now + 1


async def test_before_the_first_snapshot_there_is_nothing(shown: MapState) -> None:
    fleet = await shown.fleet(ALL)

    assert (fleet.groups, fleet.unknown, fleet.count_all) == ((), (), 0)
    assert shown.changed_since(fleet.revision) == frozenset()


async def test_a_revision_of_an_earlier_process_means_everything(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY})
    before = shown.revision
    scorer.time.seconds += 1

    assert MapState(scorer.state).changed_since(before) is None
