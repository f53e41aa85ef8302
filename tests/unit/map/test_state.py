"""The fleet as things change, what is built again, and the filters of an address."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube import selectors
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.exporters import STALE_SECONDS, TopologySource
from numalign.ledger.model import Basis
from numalign.map import fleet_query
from numalign.map import state as map_state
from numalign.map.fleet_query import MOST_PAIRS
from numalign.map.state import MapState
from numalign.map.views import Condition, Fleet, FleetQuery, NodeTile
from numalign.model.attributes import Attributes
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from tests.worlds import scorer as world
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import GPU, bag, node
from tests.worlds.objects import mistakes
from tests.worlds.scorer import BOTH, EMPTY, FOUR, HALF, LOOSE, SINGLE, Scorer, on, raw, running, uid

ALL = FleetQuery()


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


@pytest.fixture
def shown(scorer: Scorer) -> MapState:
    return MapState(scorer.state)


async def tile(shown: MapState, name: str = "a") -> NodeTile:
    every = {tile.name: tile for group in (await shown.fleet(ALL)).groups for tile in group.tiles}
    return every[name]


def free_cpus(made: NodeTile) -> list[int]:
    return [zone.free["cpu"] // 1000 for zone in made.zones]


def names(fleet: Fleet) -> list[list[str]]:
    """The shown nodes, by group."""
    return [[tile.name for tile in group.tiles] for group in fleet.groups]


async def test_a_tile_has_free_amounts_of_the_ledger(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    scorer.reserve(raw(FOUR, name="next"), "b")
    bound, reserved = await tile(shown), await tile(shown, "b")

    assert (free_cpus(bound), free_cpus(reserved)) == ([4, 8], [4, 8])
    assert [zone.allocatable[GPU] - zone.free[GPU] for zone in bound.zones] == [1, 0]
    assert [zone.allocatable["cpu"] - zone.free["cpu"] for zone in bound.zones] == [4000, 0]
    assert (bound.policy, bound.basis, bound.pods, reserved.pods) == (SINGLE, Basis.OBSERVED, 1, 1)
    assert (bound.source, bound.age(world.wall(scorer.time))) == (TopologySource.EXPORTER, None)


async def test_conditions_of_a_node(scorer: Scorer, shown: MapState) -> None:
    both = ObservedPlacement({("node-0",): bag("cpu=8 gpu=2"), ("node-1",): bag("cpu=8 gpu=2")}, 0)
    lost = node("cpu=8 mem=16Gi gpu=1", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
    ill = replace(lost, health=EMPTY, attributes=Attributes(cordoned=True, ready=False))
    await scorer.know({"a": EMPTY, "b": ill, "c": EMPTY}, placements={"a": {uid("web"): both}})
    scorer.see(running(on("a", raw("cpu=16 mem=1Gi gpu=4"), record=BOTH)))
    misaligned, sick, healthy = [await tile(shown, name) for name in "abc"]

    assert (misaligned.misaligned, misaligned.conditions) == (1, frozenset({Condition.MISALIGNED}))
    assert sick.conditions == {Condition.CORDONED, Condition.NOT_READY, Condition.LACKING}
    assert dict(sick.missing) == {GPU: 1}
    assert healthy.conditions == frozenset()


async def test_a_silent_agent_becomes_stale(scorer: Scorer, shown: MapState) -> None:
    seen = {"a": world.wall(scorer.time)}
    await scorer.know_cluster(a_cluster([replace(EMPTY, name="a")], observed_at=seen))
    assert (await tile(shown)).conditions == frozenset()
    before = shown.revision
    # An agent that goes on publishing changes only its age.
    for _ in range(20):
        scorer.time.seconds += STALE_SECONDS / 2
        seen["a"] = world.wall(scorer.time)
        assert shown.revision == before
    assert (await tile(shown)).seen == seen["a"]

    scorer.time.seconds += STALE_SECONDS
    assert shown.revision == before
    scorer.time.seconds += 1
    assert shown.changed_since(before) == frozenset({"a"})
    assert (await tile(shown)).conditions == {Condition.STALE}
    seen["a"] = world.wall(scorer.time)
    assert (await tile(shown)).conditions == frozenset()
    assert (await tile(shown)).age(world.wall(scorer.time)) == 0.0


async def test_passing_time_changes_a_node(scorer: Scorer, shown: MapState) -> None:
    """A pod of unknown zones counts everywhere, until the topology surely includes it."""
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, policy=None))))
    assert free_cpus(await tile(shown)) == [4, 4]
    before, until = shown.revision, scorer.reservations.valid_until("a")

    scorer.time.seconds = until - 1
    assert shown.revision == before
    scorer.time.seconds = until
    assert shown.changed_since(before) == frozenset({"a"})


async def test_only_changed_nodes_are_built_again(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    before = {name: await tile(shown, name) for name in "ab"}
    revision = shown.revision
    scorer.see(running(on("a", raw(FOUR), record=HALF)))

    assert shown.changed_since(revision) == frozenset({"a"})
    assert await tile(shown, "a") != before["a"]
    assert await tile(shown, "b") is before["b"]
    assert shown.changed_since(shown.revision) == frozenset()


async def test_new_and_removed_nodes_have_changed(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY}, unknown=["c"])
    await shown.refresh()
    before = shown.revision
    await scorer.know({"b": EMPTY, "d": EMPTY}, unknown=["a"])
    fleet = await shown.fleet(ALL)

    assert {"a", "c", "d"} <= (shown.changed_since(before) or set())
    assert (names(fleet), fleet.unknown) == ([["b", "d"]], ("a",))


async def test_an_old_or_unknown_revision_means_everything(
    scorer: Scorer, shown: MapState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_state, "MOST_CHANGED", 2)
    await scorer.know(dict.fromkeys("abcd", EMPTY))
    await shown.refresh()
    revision = shown.revision
    for at, name in enumerate("abc"):
        scorer.see(running(on(name, raw(FOUR, name=f"p{at}"), record=HALF)))

    assert shown.changed_since(shown.revision - 1) == frozenset({"c"})
    assert [shown.changed_since(since) for since in (revision, shown.revision + 1, 0)] == [None] * 3
    scorer.time.seconds += 1
    assert MapState(scorer.state).changed_since(revision) is None


async def test_a_fleet_has_groups_the_largest_first(scorer: Scorer, shown: MapState) -> None:
    empty = await shown.fleet(ALL)
    assert (empty.groups, empty.unknown, empty.count_all) == ((), (), 0)
    assert shown.changed_since(empty.revision) == frozenset()

    await scorer.know({"b": EMPTY, "c": LOOSE, "a": EMPTY}, unknown=["x"])
    fleet = await shown.fleet(ALL)
    assert names(fleet) == [["a", "b"], ["c"]]
    assert [group.policy for group in fleet.groups] == [SINGLE, "none"]
    assert fleet.groups[0].free["cpu"] == fleet.groups[0].allocatable["cpu"] == 32_000
    assert (fleet.count_shown, fleet.count_all, fleet.unknown) == (4, 4, ("x",))
    assert fleet.resources == ("cpu", "memory", GPU)
    assert fleet.policies == (Policy.NONE, Policy.SINGLE_NUMA_NODE)
    assert fleet.counts[Condition.UNKNOWN] == 1


SELECTED = [
    (FleetQuery(policy=Policy.NONE), [["c"]], ()),
    (FleetQuery(selector=selectors.parse("rack=one")), [["a"]], ("x",)),
    (FleetQuery(only=frozenset({Condition.CORDONED})), [["d"]], ()),
    (FleetQuery(only=frozenset({Condition.CORDONED, Condition.UNKNOWN})), [["d"]], ("x", "y")),
    (FleetQuery(resource="example.com/nic", resource_required=True), [], ()),
    (FleetQuery(resource=GPU, resource_required=True, policy=Policy.NONE), [["c"]], ()),
    (FleetQuery(node_class="none-of-these"), [], ()),
]


@pytest.mark.parametrize(("query", "nodes", "unknown"), SELECTED)
async def test_a_query_selects_nodes(
    scorer: Scorer, shown: MapState, query: FleetQuery, nodes: list[list[str]], unknown: tuple[str, ...]
) -> None:
    cordoned = replace(EMPTY, attributes=Attributes(cordoned=True))
    labels = {"a": {"rack": "one"}, "x": {"rack": "one"}}
    await scorer.know({"a": EMPTY, "c": LOOSE, "d": cordoned}, unknown=["x", "y"], labels=labels)
    fleet = await shown.fleet(query)

    assert (names(fleet), fleet.unknown) == (nodes, unknown)
    assert (fleet.count_shown, fleet.count_all) == (sum(map(len, nodes)) + len(unknown), 5)


async def test_an_unchanged_fleet_is_cached(scorer: Scorer, shown: MapState) -> None:
    await scorer.know({"a": EMPTY})
    first = await shown.fleet(ALL)

    assert await shown.fleet(ALL) is first
    assert await shown.fleet(FleetQuery(policy=Policy.NONE)) is not first
    scorer.time.seconds += 1
    assert (await shown.fleet(ALL)).now == first.now + 1


QUERIES = st.builds(
    FleetQuery,
    selector=st.sampled_from(["", "rack=a", "tier in (b,a),!spot"]).map(selectors.parse),
    node_class=st.sampled_from(["", "2x64cpu"]),
    policy=st.sampled_from([None, *Policy]),
    only=st.frozensets(st.sampled_from(Condition)),
)


def test_every_filter_is_read() -> None:
    pairs = [("labels", "rack=a,!spot"), ("class", "2x64cpu"), ("policy", "single-numa-node")]
    pairs += [("resource", GPU), ("only", "misaligned"), ("only", "not-ready")]
    query = fleet_query.parse(pairs)

    assert query == FleetQuery(
        selector=selectors.parse("rack=a,!spot"),
        node_class="2x64cpu",
        policy=Policy.SINGLE_NUMA_NODE,
        resource=GPU,
        resource_required=True,
        only=frozenset({Condition.MISALIGNED, Condition.NOT_READY}),
    )
    assert query.pairs() == tuple(pairs)
    assert fleet_query.parse([("labels", ""), ("class", ""), ("only", "")]) == FleetQuery(resource="cpu")


@given(query=QUERIES)
def test_a_written_query_is_read_as_the_same(query: FleetQuery) -> None:
    assert fleet_query.parse(query.pairs()) == query


def test_all_mistakes_are_raised_with_their_names() -> None:
    wrong = [("labels", "a in"), ("class", "c" * 64), ("policy", "singel-numa-node"), ("policy", "none")]
    wrong += [("resource", "no resource"), ("only", "sad"), ("colour", "red")]
    messages = sorted(mistake.partition("\n")[0] for mistake in mistakes(BadInput, fleet_query.parse, wrong))

    assert [message for message in messages if not message.startswith("only")] == [
        "class: is too long: a class has at most 63 characters",
        "colour: is not a filter: expected one of labels, class, policy, resource, only",
        'labels: expected "(" instead of the end',
        'policy: "singel-numa-node" is not a known value; did you mean "single-numa-node"?',
        "policy: is set 2 times: set it once",
        'resource: "no resource" is not a resource name, like cpu or nvidia.com/gpu',
    ]
    assert any(message.startswith('only: "sad" is not a known value; ') for message in messages)


LONG = "x" * 2**20


TOO_LONG = [[(name, LONG)] for name in ("only", "policy", "resource", "labels")]


@pytest.mark.parametrize("pairs", [*TOO_LONG, [("only", "stale")] * (MOST_PAIRS + 1), [(LONG, "y")]])
def test_too_long_filters_have_short_messages(pairs: list[tuple[str, str]]) -> None:
    [message, *_] = mistakes(BadInput, fleet_query.parse, pairs)

    assert 0 < len(message) < 2000
