"""One node of its Node, its topology and its kubelet's configuration."""

import pytest

from numalign.kube.decode.kubelet_config import FeatureGates, KubeletConfiguration
from numalign.kube.decode.nodes import THREADS_LABEL, BadNode, NodeFacts, facts, join
from numalign.kube.decode.nrt import Topology
from numalign.kubelet.validation import Reserved
from numalign.model.attributes import OS_LABEL, Attributes, Labels, Taint
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import CpuOption, FeatureGate, Options, TopologyOption
from numalign.model.resources import Resources, ZoneId
from numalign.shapes import Identity, UnknownNode
from tests.worlds.notation import bag, table
from tests.worlds.objects import mistakes


def zone(number: int = 0, **amounts: int) -> Zone:
    bag = Resources(amounts)
    return Zone(ZoneId(number), f"node-{number}", bag, bag, bag)


def written(**parts: object) -> dict[str, object]:
    return {"metadata": {"name": "n"}, **parts}


def running(system: str) -> dict[str, object]:
    return written(status={"nodeInfo": {"operatingSystem": system}})


def tainted(*taints: object) -> dict[str, object]:
    return written(spec={"taints": [*taints]})


def ready(status: str) -> dict[str, object]:
    return written(status={"conditions": [{"type": "Ready", "status": status}]})


PREFERRED = {"key": "x", "effect": "PreferNoSchedule"}
GPU_ONLY = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
AWAY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(("made", "attributes"), table([
    # what it shows                       what is written                   what is read
    ("an empty node takes all pods",      written(),                        Attributes()),
    ("its operating system",              running("linux"),                 Attributes(os="linux")),
    ("the same by its label alone",       written(metadata={"name": "n", "labels": {OS_LABEL: "windows"}}),
        Attributes(Labels({OS_LABEL: "windows"}), os="windows")),
    ("a cordoned node",                   written(spec={"unschedulable": True}), Attributes(cordoned=True)),
    ("a taint, and one that evicts",      tainted(GPU_ONLY, AWAY),
        Attributes(taints=(Taint("gpu", "a100"), Taint(AWAY["key"], effect="NoExecute")))),
    ("one that only ranks is not kept",   tainted(PREFERRED),               Attributes()),
    ("not ready",                         ready("False"),                   Attributes(ready=False)),
    ("a kubelet that is silent",          ready("Unknown"),                 Attributes(ready=False)),
]))  # fmt: skip
def test_attributes_are_read(made: dict[str, object], attributes: Attributes) -> None:
    assert facts(made).attributes == attributes


def test_the_identity_is_read() -> None:
    info = {"systemUUID": "s", "machineID": "m"}
    written = {"metadata": {"name": "n", "uid": "u"}, "status": {"nodeInfo": info}}
    assert facts(written).identity == Identity("u", "s", "m")


@pytest.mark.parametrize(("allocatable", "capacity", "most"), table([
    # what it shows                          allocatable            capacity               what it has at most
    ("devices of a plugin that is down",     {"cpu": 6, "x/y": 0},  {"cpu": 8, "x/y": 4},  "cpu=6 x/y=4"),
    ("devices that only the capacity lists", {"cpu": 6},            {"cpu": 8, "x/y": 4},  "cpu=6 x/y=4"),
    ("a capacity that cannot be read",       {"cpu": 6},            {"cpu": 8, "x/y": -1}, "cpu=6"),
]))  # fmt: skip
def test_devices_of_a_node_without_topology(allocatable: object, capacity: object, most: str) -> None:
    written = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, "capacity": capacity}}
    assert facts(written).bare() == UnknownNode("n", bag(most))


@pytest.mark.parametrize(("version", "minor"), [
    ("v1.34.4-eks-1-34-7", 34), ("v1.36", 36), ("v1.36.0-alpha.1.20+0123456789abcd", 36), (None, None),
])  # fmt: skip
def test_the_version_of_the_kubelet_is_read(version: str | None, minor: int | None) -> None:
    written = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": version}}}
    assert facts(written).minor == minor


def test_a_class_that_is_no_label_value_is_a_mistake() -> None:
    written = {"metadata": {"name": "n", "labels": {"numalign.io/class": "-"}}}
    [mistake] = mistakes(BadTopology, facts, written)
    assert mistake.startswith("metadata.labels[numalign.io/class]: is not a label value: at most 63 letters")


@pytest.mark.parametrize("version", ["latest", "v2.1.0", "v1.x", "v1.34.4 ", "v1.9999.0", "kwok-v0.6.1"])
def test_an_invalid_version_is_unknown(version: str) -> None:
    labelled = {"name": "n", "labels": {"numalign.io/class": "blue"}}
    status = {"nodeInfo": {"kubeletVersion": version}, "allocatable": {"cpu": "1"}}
    read = facts({"metadata": labelled, "status": status})
    assert (read.totals, read.label, read.minor) == (bag("cpu=1"), "blue", None)


@pytest.mark.parametrize(("label", "threads"), [("true", 2), ("false", 1), ("perhaps", None), (None, None)])
def test_the_threads_label_is_read(label: str | None, threads: int | None) -> None:
    assert facts({"metadata": {"name": "n", "labels": {THREADS_LABEL: label}}}).threads == threads


@pytest.mark.parametrize(("listed", "cpu", "memory"), table([
    ("all listed", zone(cpu=1000, memory=1), CpuManager.STATIC, MemoryManager.STATIC),
    ("no cpu to give out", zone(cpu=0), CpuManager.NONE, MemoryManager.NONE),
    ("devices alone", zone(**{"x/gpu": 1}), CpuManager.NONE, MemoryManager.NONE),
]))  # fmt: skip
def test_managers_follow_from_the_zones(listed: Zone, cpu: CpuManager, memory: MemoryManager) -> None:
    node = join(Topology("n", (listed,)))
    assert (node.cpu_manager, node.memory_manager) == (cpu, memory)


def test_a_configuration_overrides_the_topology() -> None:
    read = Topology("n", (zone(cpu=1, memory=1),), Policy.NONE, Scope.CONTAINER)
    policies = Policy.SINGLE_NUMA_NODE, Scope.POD, CpuManager.NONE, MemoryManager.NONE
    assert join(read, configured=KubeletConfiguration("n", *policies, 12)) == Node(
        "n", read.zones, *policies, max_zones=12, known=Known.CONFIGURED
    )


def test_version_options_and_threads_are_in_the_node() -> None:
    configured = KubeletConfiguration("n", cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        topology_options=frozenset(TopologyOption), gates=FeatureGates(frozenset(FeatureGate)))  # fmt: skip
    node_facts = NodeFacts("n", minor=33, threads=2)
    node = join(Topology("n", (zone(cpu=1),)), node_facts=node_facts, configured=configured)
    on = configured.gates.on(33)
    assert node.options == Options(configured.cpu_options, configured.topology_options, on, 33)
    assert node.threads == 2


def test_configurations_that_no_kubelet_starts_with() -> None:
    configured = KubeletConfiguration("n", policy=Policy.SINGLE_NUMA_NODE, max_zones=4,
        cpu_options=frozenset({CpuOption.ALIGN_BY_SOCKET}),
        reserved=Reserved({ZoneId(3): Resources({"memory": 1})}, 1))  # fmt: skip
    with pytest.raises(BadNode) as raised:
        join(Topology("n", (zone(cpu=1, memory=1),)), configured=configured)
    assert (raised.value.zones, raised.value.configuration) == ((), raised.value.mistakes)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        "cpuManagerPolicyOptions.align-by-socket",
        "reservedMemory",
        "topologyManagerPolicyOptions.max-allowable-numa-nodes",
    ]


def test_too_many_zones_need_a_configuration_to_be_wrong() -> None:
    read = Topology("n", tuple(zone(at, cpu=1) for at in range(9)), Policy.RESTRICTED)
    assert len(join(read).zones) == 9
    with pytest.raises(BadTopology, match="9 zones, and it aligns at most 8"):
        join(read, configured=KubeletConfiguration("n"))


OFF = frozenset({CpuOption.FULL_PCPUS_ONLY, CpuOption.ALIGN_BY_SOCKET})


def test_disabled_options_without_the_static_policy() -> None:
    configured = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, cpu_options_off=OFF)
    with pytest.raises(BadNode) as raised:
        join(Topology("n", (zone(cpu=1),)), configured=configured)
    assert str(raised.value) == (
        "cpuManagerPolicyOptions: the kubelet would not start: CPU manager policy none takes no "
        "options, not even disabled ones: align-by-socket, full-pcpus-only"
    )
