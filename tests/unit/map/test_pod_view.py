"""The view of a pod."""

import pytest

from numalign.cache.pod_question import StatedBy
from numalign.map.pod_view import NO_INTENT
from numalign.map.state import MapState
from numalign.map.views import PodIntent, PodView
from numalign.model.intent import Policy
from numalign.model.pod import Role
from tests.worlds.notation import GPU, bag
from tests.worlds.objects import all_visible
from tests.worlds.scorer import EMPTY, FOUR, HALF, TEAM, Scorer, on, raw, running, uid

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


async def view(scorer: Scorer) -> PodView:
    made = await MapState(scorer.state).pod(TEAM, "web", all_visible)
    assert made
    return made


async def test_a_running_pod_has_requests_and_a_node(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw(FOUR, ownerReferences=[OWNER]), record=HALF)))
    made = await view(scorer)
    [container] = made.containers

    assert (made.uid, made.node, made.owner, made.phase) == (uid("web"), "a", "ReplicaSet web", "Running")
    assert made.intent == PodIntent(Policy.SINGLE_NUMA_NODE, StatedBy.POD, None, (), exclusive=False)
    assert (container.name, container.role, container.requests) == (
        "c0",
        Role.APP,
        bag("cpu=4 mem=1Gi gpu=1"),
    )
    assert made.total[GPU] == 1
    assert [zone.free["cpu"] for zone in made.zones] == [4000, 8000]
    assert made.on_node
    assert made.on_node.name == "web"


async def test_a_pending_pod_is_where_it_is_reserved(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(raw(FOUR, spec={"schedulingGates": [{"name": "numalign.io/gate"}]}))
    made = await view(scorer)
    assert (made.node, made.on_node, made.zones, made.gates) == ("", None, (), ("numalign.io/gate",))

    scorer.reserve(raw(FOUR), "a")
    made = await view(scorer)
    assert made.node == "a"
    assert made.on_node
    assert made.on_node.predicted == made.on_node.held != ()


async def test_an_unreadable_policy_is_a_mistake(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(running(on("a", raw("cpu=4 mem=1Gi", policy="singel"))))
    made = await view(scorer)
    [mistake] = made.mistakes

    assert made.intent == NO_INTENT
    assert mistake.startswith('metadata.annotations[numalign.io/policy]: "singel" is not a known value')


async def test_an_exclusive_pod_lists_pods_in_its_zones(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.see(
        running(on("a", raw(FOUR, annotations={"numalign.io/exclusive": "zone"}), record=HALF)),
        running(on("a", raw(FOUR, name="other"), record=HALF)),
        running(on("a", raw(FOUR, name="third", namespace="hidden"), record=HALF)),
    )
    made = await view(scorer)
    partly = await MapState(scorer.state).pod(TEAM, "web", lambda namespace: namespace == TEAM)

    assert ({*made.beside}, made.beside_hidden) == ({"team/other", "hidden/third"}, 0)
    assert partly
    assert (partly.beside, partly.beside_hidden) == (("team/other",), 1)
