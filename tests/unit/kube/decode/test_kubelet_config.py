"""A kubelet's configuration: what is written counts, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from numalign.kube.decode import kubelet_config
from numalign.kube.decode.kubelet_config import FeatureGates, KubeletConfiguration, kubelet_configuration
from numalign.kubelet.validation import Reserved
from numalign.model.bitset import bits
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager
from numalign.model.options import CpuOption, FeatureGate, NumaStrategy, TopologyOption
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table
from tests.worlds.objects import mistakes

MIB = 2**20
GIB = 2**30


def raw(**fields: object) -> dict[str, Any]:
    return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "metadata": {"name": "n"}, **fields}  # fmt: skip


def reserved_on_zones(*memory: object) -> dict[str, Any]:
    entries = [{"numaNode": at, "limits": {"memory": amount}} for at, amount in enumerate(memory)]
    return {"reservedMemory": entries}


def test_all_fields_are_read() -> None:
    written = raw(topologyManagerPolicy="single-numa-node", topologyManagerScope="pod",
        cpuManagerPolicy="static", memoryManagerPolicy="Static",
        topologyManagerPolicyOptions={"max-allowable-numa-nodes": "12", "prefer-closest-numa-nodes": "true"},
        cpuManagerPolicyOptions={"full-pcpus-only": "true", "align-by-socket": "false"},
        featureGates={"PodLevelResourceManagers": True, "Other": "whatever"}, reservedSystemCPUs="0-1,8",
        kubeReserved={"cpu": "500m", "memory": "1Gi", "pid": "100"},
        systemReserved={"cpu": "600m", "ephemeral-storage": "1Gi"},
        evictionHard={"memory.available": "500Mi", "nodefs.available": "10%"},
        **reserved_on_zones("1Gi", "500Mi"))  # fmt: skip
    assert kubelet_configuration(written) == KubeletConfiguration(
        *("n", Policy.SINGLE_NUMA_NODE, Scope.POD, CpuManager.STATIC, MemoryManager.STATIC, 12),
        cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        cpu_options_off=frozenset({CpuOption.ALIGN_BY_SOCKET}),
        topology_options=frozenset({TopologyOption.PREFER_CLOSEST}),
        gates=FeatureGates(frozenset({FeatureGate.POD_LEVEL_MANAGERS})),
        reserved_cpus=bits([0, 1, 8]),
        kept_cpus=2,
        reserved=Reserved(
            {ZoneId(0): Resources({"memory": GIB}), ZoneId(1): Resources({"memory": 500 * MIB})},
            GIB + 500 * MIB,
        ),
    )


@pytest.mark.parametrize(("on", "off"), [("1", "0"), ("t", "f"), ("true", "false"), ("TRUE", "FALSE")])
def test_words_switch_options_on_and_off(on: str, off: str) -> None:
    options = {"align-by-socket": on, "full-pcpus-only": off}
    read = kubelet_configuration(raw(cpuManagerPolicyOptions=options))
    assert read.cpu_options == {CpuOption.ALIGN_BY_SOCKET}
    assert read.cpu_options_off == {CpuOption.FULL_PCPUS_ONLY}


def scored(**options: str) -> KubeletConfiguration:
    return kubelet_configuration(
        raw(topologyManagerPolicyOptions={name.replace("_", "-"): value for name, value in options.items()})
    )


@pytest.mark.parametrize(("written", "weights"), [
    ("cpu=3,nvidia.com/gpu=6", (("cpu", 3), ("nvidia.com/gpu", 6))),
    (" memory = 0 ,, cpu=+100,cpu=7,", (("cpu", 7), ("memory", 0))),
    ("", ()),
])  # fmt: skip
def test_weights_are_read_as_a_kubelet_would(written: str, weights: object) -> None:
    read = scored(numa_allocation_strategy="most-allocated", numa_score_weights=written)
    assert (read.strategy, read.weights) == (NumaStrategy.MOST_ALLOCATED, weights)
    assert read.unknown_options == frozenset()


@pytest.mark.parametrize("written", ["cpu", "=3", "cpu=101", "cpu=-1", "cpu=x", "cpu=1_0", "a=1=2"])
def test_unreadable_weights_are_an_unknown_option(written: str) -> None:
    read = scored(numa_allocation_strategy="balanced", numa_score_weights=written)
    assert (read.strategy, read.weights) == (NumaStrategy.NONE, ())
    assert read.unknown_options == {"numa-allocation-strategy=balanced", f"numa-score-weights={written}"}


def test_too_many_weights_are_an_unknown_option() -> None:
    weights = [f"a{at}=1" for at in range(kubelet_config.MOST_WEIGHTS + 1)]
    most, more = (scored(numa_score_weights=",".join(listed)) for listed in (weights[1:], weights))
    assert (len(most.weights), most.unknown_options) == (kubelet_config.MOST_WEIGHTS, frozenset())
    assert (more.weights, len(more.unknown_options)) == ((), 1)


def test_unknown_options_leave_the_other_fields_readable() -> None:
    read = kubelet_configuration(raw(topologyManagerPolicy="restricted",
        cpuManagerPolicyOptions={"align-by-socket": "1", "x" * 200: ""},
        topologyManagerPolicyOptions={"prefer-most-allocated-numa-node": True, "numa-allocation-strategy": 3,
            "numa-score-weights": ["cpu"]}))  # fmt: skip
    assert (read.policy, read.cpu_options) == (Policy.RESTRICTED, frozenset({CpuOption.ALIGN_BY_SOCKET}))
    assert (read.topology_options, read.weights) == (frozenset(), ())
    assert read.unknown_options == {
        "x" * kubelet_config.LONGEST_UNKNOWN,
        "prefer-most-allocated-numa-node: must be a string, not true or false",
        "numa-allocation-strategy: must be a string, not a number",
        "numa-score-weights: must be a string, not a list",
    }


def test_unreleased_options_have_no_effect() -> None:
    read = scored(numa_allocation_strategy="none", prefer_most_allocated_numa_node="false")
    assert read.unreleased_options == {"numa-allocation-strategy", "prefer-most-allocated-numa-node"}
    assert replace(read, unreleased_options=frozenset()) == scored()


def test_unknown_options_are_limited() -> None:
    many = {f"x{at:03}": "true" for at in range(300)}
    read = kubelet_configuration(raw(cpuManagerPolicyOptions=many))
    assert read.unknown_options == frozenset(sorted(many)[: kubelet_config.MOST_UNKNOWN])
    [long] = scored(numa_allocation_strategy="x" * 200).unknown_options
    assert long == f"numa-allocation-strategy={'x' * 200}"[: kubelet_config.LONGEST_UNKNOWN]


def test_policy_none_ignores_its_options() -> None:
    options = {"max-allowable-numa-nodes": "many", "prefer-closest-numa-nodes": "true", "nonsense": 1}
    read = kubelet_configuration(raw(topologyManagerPolicy="none", topologyManagerPolicyOptions=options))
    assert read == KubeletConfiguration("n", Policy.NONE)


@pytest.mark.parametrize(("minor", "entries", "on"), table([
    ("on with all that are alpha", 36, {"AllAlpha": True}, True),
    ("alpha, and so not on with all that are beta", 36, {"AllBeta": True}, False),
    ("beta from 1.37 on", 37, {"AllBeta": True}, True),
    ("beta for an unknown version", None, {"AllBeta": True}, True),
]))  # fmt: skip
def test_a_gate_is(minor: int | None, entries: dict[str, bool], on: bool) -> None:  # noqa: FBT001  a column of the table
    gates = kubelet_configuration(raw(featureGates=entries)).gates
    assert (FeatureGate.POD_LEVEL_MANAGERS in gates.on(minor)) is on


def test_every_option_of_the_cpu_manager_is_known() -> None:
    options = dict.fromkeys(CpuOption, "true")
    assert kubelet_configuration(raw(cpuManagerPolicyOptions=options)).cpu_options == {*CpuOption}


@pytest.mark.parametrize(("fields", "memory"), table([
    ("the default threshold", {}, 100 * MIB),
    ("no threshold", {"evictionHard": {}}, 0),
    ("other thresholds", {"evictionHard": {"nodefs.available": "10%"}}, 0),
    ("a threshold beside the default ones",
        {"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": True}, GIB),
    ("a share", {"evictionHard": {"memory.available": "5%"}}, None),
    ("everything together", {"kubeReserved": {"memory": "1Gi"}, "systemReserved": {"memory": "2Gi"}},
        3 * GIB + 100 * MIB),
]))  # fmt: skip
def test_memory_reserved_of_the_node(fields: dict[str, Any], memory: int | None) -> None:
    read = kubelet_configuration(raw(**fields, **reserved_on_zones("1Gi")))
    assert read.reserved == Reserved({ZoneId(0): Resources({"memory": GIB})}, memory)


EMPTY = {"topologyManagerPolicy": "", "topologyManagerScope": None, "topologyManagerPolicyOptions": None,
    "cpuManagerPolicyOptions": None, "featureGates": {}, "reservedSystemCPUs": "", "kubeReserved": None,
    "reservedMemory": None, "evictionHard": {"memory.available": "1Gi"}}  # fmt: skip


@pytest.mark.parametrize("fields", [{}, EMPTY], ids=["absent", "empty"])
def test_absent_fields_are_open(fields: dict[str, Any]) -> None:
    assert kubelet_configuration(raw(**fields)) == KubeletConfiguration("n")


@pytest.mark.parametrize(("fields", "messages"), table([
    ("options with words that are none",
        {"cpuManagerPolicyOptions": {"full-pcpus-only": "yes", "align-by-socket": ""}},
        ['cpuManagerPolicyOptions.full-pcpus-only: "yes" is neither "true" nor "false"',
            'cpuManagerPolicyOptions.align-by-socket: "" is neither "true" nor "false"']),
    ("what cannot be kept of a node",
        {"kubeReserved": {"hugepages-1Gi": "1Gi"}, "systemReserved": {"cpu": "-1"}},
        ["kubeReserved.hugepages-1Gi: cannot be reserved: only cpu, memory, ephemeral-storage, pid can",
            'systemReserved.cpu: "-1" is negative: an amount is zero or more']),
    ("what cannot be kept of a zone",
        {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1", "memory": "0"}}]},
        ["reservedMemory[0].limits.cpu: cannot be reserved on a zone: only memory and hugepages can",
            "reservedMemory[0].limits.memory: is zero: remove it"]),
    ("the same memory twice",
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}},
                {"numaNode": 0, "limits": {"memory": "1Gi"}}]},
        ["reservedMemory[1].limits.memory: is reserved on zone 0 twice"]),
]))  # fmt: skip
def test_values_that_no_kubelet_reads_are_mistakes(fields: dict[str, Any], messages: list[str]) -> None:
    assert mistakes(BadTopology, kubelet_configuration, raw(**fields)) == messages
