"""A pod from all sides, and to whom it is shown."""

import pytest

from numalign.cache.pod_question import StatedBy
from numalign.map.pod_view import NO_INTENT
from numalign.map.pods_on_node import everybody
from numalign.map.state import MapState
from numalign.map.views import PodIntent, PodView
from numalign.model.intent import Policy
from numalign.model.pod import Role
from tests.worlds.notation import GPU, bag
from tests.worlds.scorer import EMPTY, FOUR, HALF, SINGLE, TEAM, Scorer, on, raw, running, uid


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


async def view(scorer: Scorer, name: str = "web", namespace: str = TEAM) -> PodView:
    """The view of a pod for somebody who sees everything."""
    made = await MapState(scorer.state).pod(namespace, name, everybody)
    assert made
    return made


async def test_a_pod_says_where_it_is_what_it_asks_and_what_it_has(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "u",
        "controller": True,
    }
    scorer.see(running(on("a", raw(FOUR, ownerReferences=[owner]), record=HALF)))

    made = await view(scorer)

    assert (made.uid, made.node, made.owner, made.phase) == (
        uid("web"),
        "a",
        "ReplicaSet web",
        "Running",
    )
    assert made.intent == PodIntent(Policy.SINGLE_NUMA_NODE, StatedBy.POD, None, (), exclusive=False)
    (container,) = made.containers
    assert (container.name, container.role, container.requests) == (
        "c0",
        Role.APP,
        bag("cpu=4 mem=1Gi gpu=1"),
    )
    assert made.total[GPU] == 1
    assert [zone.free["cpu"] for zone in made.zones] == [4000, 8000]
    assert made.on_node
    assert made.on_node.name == "web"


async def test_a_namespace_may_be_who_asks(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"default": SINGLE})
    scorer.see(running(on("a", raw(FOUR, policy=None), record=HALF)))

    assert (await view(scorer)).intent.by is StatedBy.NAMESPACE


async def test_a_pod_that_waits_is_on_no_node(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(raw(FOUR, spec={"schedulingGates": [{"name": "numalign.io/gate"}]}))

    made = await view(scorer)

    assert (made.node, made.on_node, made.zones, made.gates) == ("", None, (), ("numalign.io/gate",))


async def test_a_reserved_pod_is_where_its_reservation_is(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(raw(FOUR))
    scorer.reserve(raw(FOUR), "a")

    made = await view(scorer)

    assert made.node == "a"
    assert made.on_node
    assert made.on_node.predicted == made.on_node.held != ()


async def test_what_cannot_be_read_of_a_pod_is_told_once(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw("cpu=4 mem=1Gi", policy="singel"))))

    made = await view(scorer)

    assert made.intent == NO_INTENT
    (mistake,) = made.mistakes
    assert mistake.startswith('metadata.annotations[numalign.io/policy]: "singel" is not a known value')


async def test_who_shares_its_zones_with_a_pod_that_wants_to_be_alone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    alone = {"numalign.io/exclusive": "zone"}
    scorer.see(
        running(on("a", raw(FOUR, annotations=alone), record=HALF)),
        running(on("a", raw(FOUR, name="other"), record=HALF)),
        running(on("a", raw("cpu=1 mem=1Gi", name="third", namespace="hidden"), record=None)),
    )

    seen = await view(scorer)
    partly = await MapState(scorer.state).pod(TEAM, "web", lambda namespace: namespace == TEAM)

    assert seen.beside == ("team/other",)
    assert partly
    assert (partly.beside, partly.beside_hidden) == (seen.beside, seen.beside_hidden)


async def test_nobody_tells_whether_a_pod_is_there_that_may_not_be_seen(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR), record=HALF)))
    shown = MapState(scorer.state)

    assert await shown.pod(TEAM, "web", lambda _: False) is None
    assert await shown.pod(TEAM, "nobody", everybody) is None
