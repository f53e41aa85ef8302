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
from numalign.shapes.identity import Identity
from numalign.shapes.unknown_node import UnknownNode
from tests.worlds.notation import bag, table
from tests.worlds.objects import mistakes


def zone(number: int = 0, **amounts: int) -> Zone:
    bag = Resources(amounts)
    return Zone(ZoneId(number), f"node-{number}", bag, bag, bag)


def zones(count: int, **amounts: int) -> tuple[Zone, ...]:
    return tuple(zone(number, **amounts) for number in range(count))


def test_a_node_tells_its_totals_and_its_class() -> None:
    written = {
        "metadata": {"name": "n", "labels": {"numalign.io/class": "2x4gpu", "other": "x"}},
        "status": {"allocatable": {"cpu": "62", "memory": "1Gi", "pods": "110"}},
    }

    read = facts(written)
    assert (read.name, read.totals, read.label) == ("n", bag("cpu=62 memory=1Gi pods=110"), "2x4gpu")


def told(**spec: object) -> dict[str, object]:
    return {"metadata": {"name": "n"}, "spec": spec}


def running(system: str) -> dict[str, object]:
    return {"metadata": {"name": "n"}, "status": {"nodeInfo": {"operatingSystem": system}}}


def labelled(system: str) -> dict[str, object]:
    return {"metadata": {"name": "n", "labels": {OS_LABEL: system}}}


def conditions(*pairs: tuple[str, str]) -> dict[str, object]:
    listed = [{"type": name, "status": status} for name, status in pairs]
    return {"metadata": {"name": "n"}, "status": {"conditions": listed}}


PREFERRED = {"key": "x", "effect": "PreferNoSchedule"}
GPU_ONLY = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
AWAY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
READY, PRESSED = ("Ready", "True"), ("DiskPressure", "True")

ATTRIBUTES = [
    # what it shows                        what is written                 what is read
    ("who says nothing takes all pods",    told(),                         Attributes()),
    ("its operating system",               running("linux"),               Attributes(os="linux")),
    ("the same by its label alone",        labelled("windows"),
     Attributes(Labels({OS_LABEL: "windows"}), os="windows")),
    ("a cordoned node",                    told(unschedulable=True),       Attributes(cordoned=True)),
    ("one that is not any more",           told(unschedulable=False),      Attributes()),
    ("a taint",                            told(taints=[GPU_ONLY]),
     Attributes(taints=(Taint("gpu", "a100"),))),
    ("one that evicts as well",            told(taints=[AWAY]),
     Attributes(taints=(Taint("node.kubernetes.io/not-ready", effect="NoExecute"),))),
    ("one that only ranks is not kept",    told(taints=[PREFERRED]),       Attributes()),
    ("no taints",                          told(taints=None),              Attributes()),
    ("ready",                              conditions(PRESSED, READY),     Attributes()),
    ("not ready",                          conditions(("Ready", "False")), Attributes(ready=False)),
    ("a kubelet that is silent",           conditions(("Ready", "Unknown")), Attributes(ready=False)),
    ("other conditions do not matter",     conditions(PRESSED),            Attributes()),
]  # fmt: skip


@pytest.mark.parametrize(("written", "attributes"), table(ATTRIBUTES))
def test_a_node_tells_who_may_go_there(written: dict[str, object], attributes: Attributes) -> None:
    assert facts(written).attributes == attributes


def test_a_node_tells_all_its_labels() -> None:
    carried = {"pool": "gpu", "empty": "", "numalign.io/class": "2x4gpu"}

    assert facts({"metadata": {"name": "n", "labels": carried}}).attributes.labels == Labels(carried)


def test_a_label_and_a_taint_must_make_sense() -> None:
    written = {
        "metadata": {"name": "n", "uid": 7, "labels": {"pool": 1, "other": 2}},
        "spec": {"unschedulable": "yes", "taints": [{"value": 1}, "x"]},
        "status": {"conditions": [{"type": 1}, {"type": "Ready", "status": True}]},
    }

    assert mistakes(BadTopology, facts, written) == [
        "metadata.labels.pool: must be a string, not a number",
        "metadata.labels.other: must be a string, not a number",
        "spec.taints[0].key: is missing",
        "spec.taints[0].value: must be a string, not a number",
        "spec.taints[0].effect: is missing",
        'spec.taints[1]: must be an object, not "x"',
        'spec.unschedulable: must be true or false, not "yes"',
        "status.conditions[0].type: must be a string, not a number",
        "status.conditions[1].status: must be a string, not true or false",
        "metadata.uid: must be a string, not a number",
    ]


def test_a_node_tells_which_machine_it_is() -> None:
    written = {
        "metadata": {"name": "n", "uid": "u"},
        "status": {"nodeInfo": {"systemUUID": "s", "machineID": "m"}},
    }

    assert facts(written).identity == Identity("u", "s", "m")


MOST = [
    # what it shows                          allocatable            capacity               what it has at most
    ("devices of a plugin that is down",     {"cpu": 6, "x/y": 0},  {"cpu": 8, "x/y": 4},  "cpu=6 x/y=4"),
    ("devices that only the capacity lists", {"cpu": 6},            {"cpu": 8, "x/y": 4},  "cpu=6 x/y=4"),
    ("more may be given out than there is",  {"cpu": 6, "x/y": 4},  {"x/y": 0},            "cpu=6 x/y=4"),
    ("a capacity that cannot be read",       {"cpu": 6},            {"cpu": 8, "x/y": -1}, "cpu=6"),
    ("no capacity",                          {"cpu": 6},            None,                  "cpu=6"),
]  # fmt: skip


@pytest.mark.parametrize(("allocatable", "capacity", "most"), table(MOST))
def test_a_node_without_topology_has_the_devices_that_are_there(
    allocatable: object, capacity: object, most: str
) -> None:
    written = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, "capacity": capacity}}

    assert facts(written).bare() == UnknownNode("n", bag(most))


def test_a_node_that_says_nothing_of_its_resources_may_have_any() -> None:
    assert facts({"metadata": {"name": "n"}, "status": {"capacity": {"x/gpu": 8}}}).bare().totals is None


@pytest.mark.parametrize("status", [None, {}, {"allocatable": None}], ids=["null", "empty", "no amounts"])
def test_a_node_that_does_not_say_has_no_totals(status: object) -> None:
    assert facts({"metadata": {"name": "n"}, "status": status}) == NodeFacts("n")


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("v1.34.4", 34),
        ("1.32.13", 32),
        ("v1.34.4-eks-1-34-7", 34),
        ("v1.33.5-gke.2172001", 33),
        ("v1.34.1+k3s1", 34),
        ("v1.36", 36),
        ("v1.36.0-alpha.1.20+0123456789abcd", 36),
        ("", None),
        (None, None),
    ],
)
def test_a_node_tells_the_version_of_its_kubelet(version: str | None, minor: int | None) -> None:
    written = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": version}}}
    assert facts(written).minor == minor


@pytest.mark.parametrize("version", ["latest", "v2.1.0", "v1.x", "v1.34.4 ", "1", "v1.9999.0", "kwok-v0.6.1"])
def test_a_version_that_is_none_is_not_known_and_spoils_nothing_else(version: str) -> None:
    labelled = {"name": "n", "labels": {"numalign.io/class": "blue"}}
    status = {"nodeInfo": {"kubeletVersion": version}, "allocatable": {"cpu": "1"}}

    read = facts({"metadata": labelled, "status": status})
    assert (read.totals, read.label, read.minor) == (bag("cpu=1"), "blue", None)


@pytest.mark.parametrize(
    ("label", "threads"), [("true", 2), ("false", 1), ("", None), ("perhaps", None), (None, None)]
)
def test_a_label_tells_whether_cores_have_two_threads(label: str | None, threads: int | None) -> None:
    assert facts({"metadata": {"name": "n", "labels": {THREADS_LABEL: label}}}).threads == threads


def test_every_mistake_is_told_with_its_path() -> None:
    written = {
        "metadata": {"labels": {"numalign.io/class": 1}},
        "status": {"allocatable": {"cpu": "-1", "nvidia.com/gpu": []}},
    }

    assert mistakes(BadTopology, facts, written) == [
        "metadata.name: is missing",
        'status.allocatable.cpu: "-1" is negative: an amount is zero or more',
        "status.allocatable[nvidia.com/gpu]: must be a quantity, not a list",
        "metadata.labels[numalign.io/class]: must be a string, not a number",
    ]


@pytest.mark.parametrize(
    ("held", "cpu_manager", "memory_manager"),
    [
        (zone(cpu=1000, memory=1), CpuManager.STATIC, MemoryManager.STATIC),
        (zone(cpu=0), CpuManager.NONE, MemoryManager.NONE),
        (zone(**{"x/gpu": 1}), CpuManager.NONE, MemoryManager.NONE),
    ],
    ids=["all listed", "no cpu to give out", "devices alone"],
)
def test_managers_are_read_off_the_zones(
    held: Zone, cpu_manager: CpuManager, memory_manager: MemoryManager
) -> None:
    node = join(Topology("n", (held,)))

    assert (node.cpu_manager, node.memory_manager) == (cpu_manager, memory_manager)


def test_a_topology_alone_is_a_node_known_by_counts() -> None:
    read = Topology("n", (zone(cpu=1),), Policy.RESTRICTED, Scope.POD, 12)

    assert join(read) == Node(
        "n",
        (zone(cpu=1),),
        Policy.RESTRICTED,
        Scope.POD,
        memory_manager=MemoryManager.NONE,
        totals=None,
        max_zones=12,
        known=Known.COUNTS,
        label=None,
    )


def test_the_node_object_adds_totals_class_and_attributes() -> None:
    attributes = Attributes(Labels({"pool": "gpu"}), cordoned=True)
    node_facts = NodeFacts("n", Resources({"cpu": 1}), "a-class", attributes=attributes)
    node = join(Topology("n", (zone(),)), node_facts=node_facts)

    assert (node.totals, node.label, node.known) == (Resources({"cpu": 1}), "a-class", Known.COUNTS)
    assert node.attributes == attributes


def test_a_configuration_overrides_what_it_says() -> None:
    read = Topology("n", (zone(cpu=1, memory=1),), Policy.NONE, Scope.CONTAINER)
    said = KubeletConfiguration(
        "n", Policy.SINGLE_NUMA_NODE, Scope.POD, CpuManager.NONE, MemoryManager.NONE, 12
    )

    assert join(read, configured=said) == Node(
        "n",
        read.zones,
        Policy.SINGLE_NUMA_NODE,
        Scope.POD,
        CpuManager.NONE,
        MemoryManager.NONE,
        max_zones=12,
        known=Known.CONFIGURED,
    )


def test_version_options_and_threads_are_in_the_node() -> None:
    said = KubeletConfiguration(
        "n",
        cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        topology_options=frozenset(TopologyOption),
        gates=FeatureGates(frozenset(FeatureGate)),
    )
    node = join(
        Topology("n", (zone(cpu=1),)), node_facts=NodeFacts("n", minor=33, threads=2), configured=said
    )

    assert node.options == Options(said.cpu_options, said.topology_options, said.gates.on(33), 33)
    assert node.threads == 2


def test_a_kubelet_of_no_known_version_is_taken_to_be_new() -> None:
    node = join(Topology("n", (zone(cpu=1),)))

    assert (node.options, node.threads) == (Options(), None)


def test_what_no_kubelet_starts_with_is_a_mistake() -> None:
    said = KubeletConfiguration(
        "n",
        policy=Policy.SINGLE_NUMA_NODE,
        max_zones=4,
        cpu_options=frozenset({CpuOption.ALIGN_BY_SOCKET}),
        reserved=Reserved({ZoneId(3): Resources({"memory": 1})}, 1),
    )

    with pytest.raises(BadNode) as raised:
        join(Topology("n", (zone(cpu=1, memory=1),)), configured=said)
    assert (raised.value.zones, raised.value.configuration) == ((), raised.value.mistakes)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        "cpuManagerPolicyOptions.align-by-socket",
        "reservedMemory",
        "topologyManagerPolicyOptions.max-allowable-numa-nodes",
    ]


OFF = frozenset({CpuOption.FULL_PCPUS_ONLY, CpuOption.ALIGN_BY_SOCKET})


def test_no_kubelet_starts_with_options_of_no_use_even_where_they_are_off() -> None:
    said = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, cpu_options_off=OFF)

    with pytest.raises(BadNode) as raised:
        join(Topology("n", (zone(cpu=1),)), configured=said)
    assert str(raised.value) == (
        "cpuManagerPolicyOptions: the kubelet would not start: CPU manager policy none takes no "
        "options, not even disabled ones: align-by-socket, full-pcpus-only"
    )


def test_options_of_no_use_are_told_once() -> None:
    on = frozenset({CpuOption.DISTRIBUTE_ACROSS_NUMA})
    said = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, cpu_options=on, cpu_options_off=OFF)

    with pytest.raises(BadNode) as raised:
        join(Topology("n", (zone(cpu=1),)), configured=said)
    assert len(raised.value.configuration) == 1


def test_options_that_are_off_change_nothing_for_a_static_manager() -> None:
    read, said = Topology("n", (zone(cpu=1),)), KubeletConfiguration("n", cpu_options_off=OFF)

    assert join(read, configured=said) == join(read, configured=KubeletConfiguration("n"))


def test_a_kubelet_of_which_nothing_was_told_has_started() -> None:
    read = Topology("n", zones(9, cpu=1), Policy.RESTRICTED)

    assert len(join(read).zones) == 9
    with pytest.raises(BadTopology, match="9 zones, and it aligns at most 8"):
        join(read, configured=KubeletConfiguration("n"))


def test_a_configuration_that_says_nothing_changes_what_is_known_and_no_more() -> None:
    read = Topology("n", (zone(cpu=1, memory=1),), Policy.RESTRICTED, Scope.POD, 12)
    node = join(read, configured=KubeletConfiguration("n"))

    assert (node.policy, node.scope, node.max_zones) == (Policy.RESTRICTED, Scope.POD, 12)
    assert (node.cpu_manager, node.memory_manager) == (CpuManager.STATIC, MemoryManager.STATIC)
    assert node.known is Known.CONFIGURED


@pytest.mark.parametrize("policy", Policy)
def test_a_topology_has_up_to_64_zones(policy: Policy) -> None:
    assert len(join(Topology("n", zones(64, cpu=1, memory=1), policy)).zones) == 64


def test_zones_without_cpus_and_devices_are_kept_apart() -> None:
    bare = tuple(zone(at, cpu=0) for at in range(2, 34))
    read = Topology("n", (zone(0, cpu=4000), zone(1, cpu=4000), *bare), Policy.RESTRICTED)

    node = join(read)

    assert (node.ids, node.others, node.every_zone) == ((0, 1), bare, read.zones)
