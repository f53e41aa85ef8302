"""The machines and pods that a scheduler is measured with."""

from collections import Counter

from bench import scheduling_load
from bench.scheduling_load import TEMPLATES
from harness.sim.shapes import GPU
from numalign.kube.decode.pod_reader import PodReader
from numalign.model.intent import Policy
from numalign.model.pod import Qos


def test_every_node_has_a_topology_and_every_other_one_eight_zones() -> None:
    pairs = list(scheduling_load.nodes(6))
    assert [node["metadata"]["name"] for node, _ in pairs] == [
        topology["metadata"]["name"] for _, topology in pairs
    ]
    assert [len(topology["zones"]) for _, topology in pairs] == [2, 8] * 3


def test_pods_of_all_templates_take_turns() -> None:
    pods = [*scheduling_load.pods(8, kind="device")]
    asked = Counter(each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in pods)
    assert asked == {str(template.cpus): 2 for template in TEMPLATES["device"]}
    assert len({each["metadata"]["name"] for each in pods}) == 8


def test_pods_of_both_kinds_ask_the_same_but_for_the_device() -> None:
    kinds = [scheduling_load.pods(4, kind=kind) for kind in ("device", "plain")]
    amounts = [[each["spec"]["containers"][0]["resources"]["limits"] for each in pods] for pods in kinds]
    without = [{name: amount for name, amount in each.items() if name != GPU} for each in amounts[0]]
    assert without == amounts[1]
    assert all(GPU in each for each in amounts[0])


def test_pods_are_read_as_guaranteed_and_want_one_zone() -> None:
    [pod] = scheduling_load.pods(1, kind="device")
    asking = PodReader().request(pod)
    assert asking.written.policy is Policy.SINGLE_NUMA_NODE
    assert asking.demand
    assert asking.demand.qos is Qos.GUARANTEED
