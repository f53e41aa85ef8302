"""What is written is what the readers of the product, and people, expect to read."""

from typing import Any

import pytest

from harness.sim import documents
from harness.sim.accounts import Held
from harness.sim.predicates import Refusal
from harness.sim.shapes import SHAPES, SimNode
from numalign.kube.decode import placement_records
from numalign.kube.decode.nrt import topology
from numalign.model.resources import Resources
from tests.sim.stand_ins import pod

Json = dict[str, Any]
MACHINE = SimNode("n", "two-by-four", "restricted")
GPU = "nvidia.com/gpu"


def left() -> dict[int, dict[str, int]]:
    zones = {zone: MACHINE.make.allocatable() for zone in MACHINE.make.ids}
    zones[1] |= {"cpu": 3000, GPU: 1}
    return zones


def test_a_topology_shows_what_each_zone_has_left_in_whole_cpus_and_bytes() -> None:
    [_, second] = documents.topology(MACHINE, left(), {})["zones"]
    assert second["name"] == "node-1"
    assert {one["name"]: one for one in second["resources"]} == {
        "cpu": {"name": "cpu", "capacity": "34", "allocatable": "32", "available": "3"},
        "memory": {
            "name": "memory",
            "capacity": str(257 * 2**30),
            "allocatable": str(256 * 2**30),
            "available": str(256 * 2**30),
        },
        GPU: {"name": GPU, "capacity": "4", "allocatable": "4", "available": "1"},
    }


def test_a_topology_says_how_the_kubelet_is_configured() -> None:
    found = documents.topology(MACHINE, left(), {"more": "x"})
    assert {one["name"]: one["value"] for one in found["attributes"]} == {
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "container",
        "more": "x",
    }


def test_a_topology_is_read_as_it_was_meant() -> None:
    read = topology(documents.topology(MACHINE, left(), {}))
    assert {zone.id: dict(zone.free) for zone in read.zones} == left()
    assert {zone.id: dict(zone.capacity) for zone in read.zones} == dict.fromkeys(
        MACHINE.make.ids, MACHINE.make.capacity()
    )
    assert read.policy == MACHINE.policy


def test_memory_is_not_listed_where_no_manager_gives_it_out() -> None:
    assert "memory" not in SHAPES["eight-zones"].allocatable()
    assert documents.node(SimNode("n", "eight-zones"))["status"]["allocatable"]["memory"] == str(2**40)


def test_a_node_keeps_from_pods_what_is_reserved() -> None:
    status = documents.node(MACHINE)["status"]
    assert (status["capacity"]["cpu"], status["allocatable"]["cpu"]) == ("68", "64")
    assert status["allocatable"][GPU] == "8"


def test_init_containers_of_a_running_pod_have_ended_and_sidecars_go_on() -> None:
    running = pod("a")
    running["spec"]["initContainers"] = [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]
    status = documents.running(running)
    assert [[*one["state"]] for one in status["initContainerStatuses"]] == [["terminated"], ["running"]]
    assert [[*one["state"]] for one in status["containerStatuses"]] == [["running"]]
    assert {"Ready", "PodScheduled"} <= {one["type"] for one in status["conditions"]}


def test_a_rejected_pod_says_why() -> None:
    status = documents.rejected(Refusal("OutOfcpu", "too much"))
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == "Pod was rejected: too much"


def test_a_placement_names_zones_and_amounts_as_the_topology_does() -> None:
    assert documents.placement({(1,): {"cpu": 1500, GPU: 2}, (0, 1): {"memory": 9}}) == (
        '[{"zones":["node-0","node-1"],"amount":{"memory":"9"}},'
        '{"zones":["node-1"],"amount":{"cpu":"1500m","nvidia.com/gpu":"2"}}]'
    )


@pytest.mark.parametrize(
    "held", [{}, {(1,): {"cpu": 2000, GPU: 1}, (0, 1): {"memory": 9}}], ids=["nothing", "some"]
)
def test_a_placement_is_read_as_it_was_meant(held: Held) -> None:
    expected = {
        tuple(documents.zone_name(zone) for zone in zones): Resources(amounts)
        for zones, amounts in held.items()
    }
    assert placement_records.read(documents.placement(held)) == expected
