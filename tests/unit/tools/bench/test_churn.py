"""A cluster that changes all the time, and what is measured of a webhook meanwhile."""

import orjson
import pytest

from numalign.kube.decode import nrt
from numalign.model.intent import Policy
from tools.bench import churn, churn_server
from tools.bench.churn import Load
from tools.bench.churn_server import CANARY
from tools.bench.cluster import Raw
from tools.bench.fleets import Case

CASE = Case.mixed(12, 6, Policy.NONE)


async def changed(times: int) -> churn_server.Store:
    """A store in which so many topologies have changed."""
    store = churn_server.Store(CASE, CASE.members(), [b"{}"] * CASE.nodes)
    for _ in range(times):
        await store.change_one()
    return store


async def test_every_change_is_told_with_a_version_of_its_own() -> None:
    store = await changed(5)
    versions, said = zip(*store.lines, strict=True)
    objects = [orjson.loads(line)["object"] for line in said]
    assert list(versions) == [store.version - 4 + at for at in range(5)]
    assert [each["metadata"]["resourceVersion"] for each in objects] == [*map(str, versions)]


async def test_a_change_is_of_what_is_free_and_of_nothing_else() -> None:
    store = await changed(1)
    [(_, said)] = store.lines
    read = nrt.topology(orjson.loads(said)["object"])
    before = next(node for node in store.members if node.name == read.name)
    assert read.zones != before.zones
    assert [zone.allocatable for zone in read.zones] == [zone.allocatable for zone in before.zones]


async def test_lists_have_what_was_told() -> None:
    store = await changed(3)
    latest = {each["metadata"]["name"]: each for each in map(orjson.loads, store.items) if each}
    told = [orjson.loads(said)["object"] for _, said in store.lines]
    assert latest == {each["metadata"]["name"]: each for each in told}


@pytest.mark.parametrize("free", [0, 1])
def test_the_canary_has_what_no_other_node_has(free: int) -> None:
    [zone] = churn_server.canary(free).zones
    assert (zone.allocatable[CANARY], zone.free[CANARY]) == (1, free)
    assert not any(CANARY in zone.allocatable for node in CASE.members() for zone in node.zones)


@pytest.mark.parametrize(
    ("response", "shows"),
    [
        ({"allowed": True}, True),
        ({"allowed": True, "warnings": ["no node has room"]}, False),
        ({"allowed": False}, False),
    ],
)
def test_an_answer_shows_whether_there_is_room(response: Raw, *, shows: bool) -> None:
    assert churn.shows_room(response) is shows


def test_a_run_sees_the_canary_change_and_counts_what_all_processes_took() -> None:
    load = Load(rate=20, changes=40, seconds=1)
    [quiet, busy], memory = churn.measure(nodes=12, makes=6, templates=1, load=load)
    assert (quiet.changed, quiet.load.seconds) == (0, 0.5)
    assert busy.changed > 0
    assert busy.staleness
    assert {*busy.document()["cores"]} == {"webhook", "API server", "client"}
    assert memory["most"] >= memory["now"] > 0
