"""The views as JSON, in the forms of Kubernetes."""

from typing import Any

import orjson
import yaml

from numalign.map.json_forms import fleet_json, node_json, pod_json, tile_json, what_if_json
from numalign.map.state import MapState
from numalign.map.views import FleetQuery
from numalign.map.what_if import WhatIf
from tests.unit.map.test_node_view import ONE_CORE, TWO_SOCKETS
from tests.worlds.objects import all_visible
from tests.worlds.scorer import EMPTY, FOUR, HALF, TEAM, Raw, Scorer, on, raw, running, uid

AMOUNTS = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}


async def cluster() -> MapState:
    """A node whose machine is known and one with amounts, each with a pod, and one without topology."""
    scorer = Scorer()
    await scorer.know({"a": TWO_SOCKETS, "b": EMPTY}, unknown=["c"], placements={"a": {uid("web"): ONE_CORE}})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))
    scorer.see(running(on("b", raw(FOUR, name="other"), record=HALF)))
    return MapState(scorer.state)


def encoded(form: Raw) -> Any:  # noqa: ANN401  any document
    return orjson.loads(orjson.dumps(form))


async def test_a_fleet_has_groups_of_nodes_with_zones() -> None:
    fleet = await (await cluster()).fleet(FleetQuery())
    form = encoded(fleet_json(fleet))
    tiles = {tile.name: tile for group in fleet.groups for tile in group.tiles}
    nodes = {node["name"]: node for group in form["groups"] for node in group["nodes"]}

    assert (form["shown"], form["all"], form["unknown"]) == (3, 3, ["c"])
    assert form["conditions"]["unknown"] == 1
    assert nodes["b"] == encoded(tile_json(tiles["b"], fleet.now))
    assert nodes["b"]["zones"][0] == {
        "id": 0,
        "name": "node-0",
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
        "free": {"cpu": "4", "memory": "15Gi", "nvidia.com/gpu": "1"},
    }
    assert (nodes["b"]["age"], nodes["b"]["basis"], nodes["b"]["pods"]) == (None, "observed", 1)


async def test_a_node_has_boxes_and_pods() -> None:
    view, hidden = [await (await cluster()).node("a", visible) for visible in (all_visible, lambda _: False)]
    assert view
    assert hidden
    form = encoded(node_json(view))
    core, *_ = form["sockets"][0]["zones"][0]["caches"][0]["cores"]
    [pod], [nameless] = form["podsHere"], encoded(node_json(hidden))["podsHere"]

    assert core == {"id": 0, "cpus": [{"id": number, "use": "reserved", "pod": None} for number in (0, 8)]}
    assert (pod["name"], pod["known"], pod["aligned"], pod["cpus"]) == ("web", "kubelet", True, "1,9")
    assert (pod["extent"], pod["notPinned"], form["hidden"]) == (None, [], 0)
    amount = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert pod["observed"] == [{"zones": ["node-0"], "amount": amount}]
    assert [nameless[key] for key in ("namespace", "name", "uid", "owner")] == [None] * 4


async def test_a_pod_has_its_requests_and_its_placement() -> None:
    view = await (await cluster()).pod(TEAM, "other", all_visible)
    assert view
    form = encoded(pod_json(view))

    assert (form["node"], form["phase"], form["pinned"]) == ("b", "Running", None)
    assert form["intent"]["from"] == "pod"
    assert form["demand"]["containers"][0]["asks"] == AMOUNTS
    assert form["onNode"]["predicted"] == [{"zones": ["node-0"], "amount": AMOUNTS}]


async def test_an_answer_has_nodes_and_placed_replicas() -> None:
    question = WhatIf(await cluster())

    async def asked(container: str, **more: Any) -> Any:  # noqa: ANN401  any document
        text = yaml.dump(raw(container, **more), Dumper=yaml.CSafeDumper).encode()
        return encoded(what_if_json(await question.ask(text, visible=all_visible, replicas=9)))

    never = await asked("cpu=16 mem=1Gi gpu=1", policy="best-effort")
    fits = await asked("cpu=8 mem=1Gi gpu=1")
    [refused], [placed] = never["templates"], fits["templates"]

    assert (never["kind"], never["replicas"], never["fit"], never["placed"]) == ("Pod", 9, 0, [])
    assert refused["counts"] == {"fits": 0, "not-now": 0, "not-answered": 0, "never": 2}
    assert {node["name"]: node["verdict"] for node in refused["nodes"]} == {"a": "never", "b": "never"}
    assert all(node["reason"] and not node["placement"] for node in refused["nodes"])
    assert (fits["fit"], fits["bounded"]) == (2, False)
    assert {(each["node"], *each["zones"]) for each in fits["placed"]} == {("a", "node-1"), ("b", "node-1")}
    amount = {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert [node["placement"] for node in placed["nodes"]] == [[{"zones": ["node-1"], "amount": amount}]] * 2
