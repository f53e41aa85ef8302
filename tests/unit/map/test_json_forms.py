"""The views for programs: what stands where, in the forms of Kubernetes, and that any encoder takes it."""

import orjson
import yaml

from numalign.map.json_forms import fleet_json, node_json, pod_json, tile_json, what_if_json
from numalign.map.pods_on_node import everybody
from numalign.map.state import MapState
from numalign.map.views import FleetQuery
from numalign.map.what_if import WhatIf
from numalign.model.machine import read_list
from tests.unit.map.test_node_view import ONE_CORE, TWO_SOCKETS
from tests.worlds.scorer import EMPTY, FOUR, HALF, TEAM, Raw, Scorer, on, raw, running, uid

HELD = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}


async def seen() -> MapState:
    """A node whose machine is described and one in amounts, each with a pod, and one without topology."""
    scorer = Scorer()
    await scorer.know({"a": TWO_SOCKETS, "b": EMPTY}, unknown=["c"], placements={"a": {uid("web"): ONE_CORE}})
    scorer.see(running(on("a", raw("cpu=2 mem=1Gi gpu=1"))))
    scorer.see(running(on("b", raw(FOUR, name="other"), record=HALF)))
    return MapState(scorer.state)


def encoded(form: Raw) -> Raw:
    """What a program reads."""
    read: Raw = orjson.loads(orjson.dumps(form))
    return read


async def test_a_fleet_has_groups_of_nodes_with_zones() -> None:
    fleet = await (await seen()).fleet(FleetQuery())

    form = encoded(fleet_json(fleet))

    assert (form["shown"], form["all"], form["unknown"]) == (3, 3, ["c"])
    assert form["conditions"]["unknown"] == 1
    tiles = {tile.name: tile for group in fleet.groups for tile in group.tiles}
    nodes = {node["name"]: node for group in form["groups"] for node in group["nodes"]}
    assert nodes["b"] == encoded(tile_json(tiles["b"], fleet.now))
    assert nodes["b"]["zones"][0] == {
        "id": 0,
        "name": "node-0",
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
        "free": {"cpu": "4", "memory": "15Gi", "nvidia.com/gpu": "1"},
    }
    assert (nodes["b"]["age"], nodes["b"]["basis"], nodes["b"]["pods"]) == (None, "observed", 1)


async def test_a_node_has_boxes_and_pods() -> None:
    view = await (await seen()).node("a", everybody)
    assert view

    form = encoded(node_json(view))

    (core, *_) = form["sockets"][0]["zones"][0]["caches"][0]["cores"]
    assert core == {
        "id": 0,
        "cpus": [{"id": 0, "use": "reserved", "pod": None}, {"id": 8, "use": "reserved", "pod": None}],
    }
    (pod,) = form["podsHere"]
    assert (pod["name"], pod["known"], pod["aligned"]) == ("web", "kubelet", True)
    assert (pod["extent"], pod["notPinned"]) == (None, [])
    assert read_list(pod["cpus"]) == read_list("1,9")
    assert pod["observed"] == [
        {"zones": ["node-0"], "amount": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    ]
    assert form["hidden"] == 0


async def test_a_hidden_pod_is_null_where_its_name_would_be() -> None:
    view = await (await seen()).node("a", lambda _: False)
    assert view

    (pod,) = encoded(node_json(view))["podsHere"]

    assert [pod[key] for key in ("namespace", "name", "uid", "owner")] == [None] * 4
    assert pod["cpus"] == "1,9"


async def test_a_pod_says_what_it_asks_and_has() -> None:
    view = await (await seen()).pod(TEAM, "other", everybody)
    assert view

    form = encoded(pod_json(view))

    assert (form["node"], form["phase"], form["pinned"]) == ("b", "Running", None)
    assert form["intent"]["from"] == "pod"
    assert form["demand"]["containers"][0]["asks"] == HELD
    assert form["onNode"]["predicted"] == [{"zones": ["node-0"], "amount": HELD}]


async def test_an_answer_has_what_each_node_says() -> None:
    text = yaml.safe_dump(raw("cpu=16 mem=1Gi gpu=1", policy="best-effort")).encode()
    asked = await WhatIf(await seen()).ask(text, visible=everybody, replicas=2)

    form = encoded(what_if_json(asked))

    assert (form["kind"], form["replicas"], form["fit"], form["placed"]) == ("Pod", 2, 0, [])
    (template,) = form["templates"]
    assert template["counts"] == {"fits": 0, "not-now": 0, "not-answered": 0, "never": 2}
    assert {node["name"]: node["verdict"] for node in template["nodes"]} == {"a": "never", "b": "never"}
    assert all(node["reason"] and not node["placement"] for node in template["nodes"])


async def test_an_answer_has_where_replicas_would_come_to() -> None:
    text = yaml.safe_dump(raw("cpu=8 mem=1Gi gpu=1")).encode()
    asked = await WhatIf(await seen()).ask(text, visible=everybody, replicas=9)

    form = encoded(what_if_json(asked))

    assert (form["replicas"], form["fit"], form["bounded"]) == (9, 2, False)
    assert {(placed["node"], *placed["zones"]) for placed in form["placed"]} == {
        ("a", "node-1"),
        ("b", "node-1"),
    }
    (template,) = form["templates"]
    assert [node["placement"] for node in template["nodes"]] == [
        [{"zones": ["node-1"], "amount": {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "1"}}]
    ] * 2
