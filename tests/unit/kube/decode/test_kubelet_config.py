"""A kubelet's configuration: what is written counts, and nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from numalign.kube.decode.kubelet_config import (
    LONGEST_UNKNOWN,
    MOST_UNKNOWN,
    MOST_WEIGHTS,
    FeatureGates,
    KubeletConfiguration,
    kubelet_configuration,
)
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
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "metadata": {"name": "n"},
        **fields,
    }


def kept_on_zones(*memory: object) -> dict[str, Any]:
    """Memory that is reserved on zone 0, 1, ..."""
    told = [{"numaNode": at, "limits": {"memory": amount}} for at, amount in enumerate(memory)]
    return {"reservedMemory": told}


def test_everything_that_matters_is_read() -> None:
    written = raw(
        topologyManagerPolicy="single-numa-node",
        topologyManagerScope="pod",
        cpuManagerPolicy="static",
        memoryManagerPolicy="Static",
        topologyManagerPolicyOptions={"max-allowable-numa-nodes": "12", "prefer-closest-numa-nodes": "true"},
        cpuManagerPolicyOptions={"full-pcpus-only": "true", "align-by-socket": "false"},
        featureGates={"PodLevelResourceManagers": True, "Other": "whatever"},
        reservedSystemCPUs="0-1,8",
        kubeReserved={"cpu": "500m", "memory": "1Gi", "pid": "100"},
        systemReserved={"cpu": "600m", "ephemeral-storage": "1Gi"},
        evictionHard={"memory.available": "500Mi", "nodefs.available": "10%"},
        **kept_on_zones("1Gi", "500Mi"),
    )

    assert kubelet_configuration(written) == KubeletConfiguration(
        "n",
        Policy.SINGLE_NUMA_NODE,
        Scope.POD,
        CpuManager.STATIC,
        MemoryManager.STATIC,
        12,
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


@pytest.mark.parametrize("word", ["1", "t", "T", "true", "TRUE", "True"])
def test_words_switch_an_option_on(word: str) -> None:
    read = kubelet_configuration(raw(cpuManagerPolicyOptions={"align-by-socket": word}))
    assert read.cpu_options == {CpuOption.ALIGN_BY_SOCKET}


@pytest.mark.parametrize("word", ["0", "f", "F", "false", "FALSE", "False"])
def test_words_switch_an_option_off(word: str) -> None:
    read = kubelet_configuration(raw(topologyManagerPolicyOptions={"prefer-closest-numa-nodes": word}))
    assert read.topology_options == frozenset()


def scored(**options: str) -> KubeletConfiguration:
    return kubelet_configuration(
        raw(topologyManagerPolicyOptions={name.replace("_", "-"): value for name, value in options.items()})
    )


@pytest.mark.parametrize(
    ("written", "weights"),
    [
        ("cpu=3,nvidia.com/gpu=6", (("cpu", 3), ("nvidia.com/gpu", 6))),
        (" memory = 0 ,, cpu=+100,cpu=7,", (("cpu", 7), ("memory", 0))),
        ("", ()),
    ],
)
def test_weights_are_read_as_a_kubelet_would(written: str, weights: object) -> None:
    read = scored(numa_allocation_strategy="most-allocated", numa_score_weights=written)
    assert (read.strategy, read.weights) == (NumaStrategy.MOST_ALLOCATED, weights)
    assert read.unknown_options == frozenset()


@pytest.mark.parametrize("written", ["cpu", "=3", "cpu=101", "cpu=-1", "cpu=x", "cpu=1_0", "a=1=2"])
def test_weights_of_a_kubelet_to_come_leave_the_rest_readable(written: str) -> None:
    read = scored(numa_allocation_strategy="balanced", numa_score_weights=written)
    assert (read.strategy, read.weights) == (NumaStrategy.NONE, ())
    assert read.unknown_options == {
        "numa-allocation-strategy=balanced",
        f"numa-score-weights={written}",
    }


def test_more_weights_than_are_read_are_not_known() -> None:
    weights = [f"a{at}=1" for at in range(MOST_WEIGHTS + 1)]
    most, more = (scored(numa_score_weights=",".join(listed)) for listed in (weights[1:], weights))

    assert (len(most.weights), most.unknown_options) == (MOST_WEIGHTS, frozenset())
    assert (more.weights, len(more.unknown_options)) == ((), 1)


@pytest.mark.parametrize("strategy", ["", "none"])
def test_an_option_that_no_kubelet_has_is_kept_whatever_it_is_set_to(strategy: str) -> None:
    read = scored(numa_allocation_strategy=strategy, prefer_most_allocated_numa_node="false")
    assert read.unreleased_options == {"numa-allocation-strategy", "prefer-most-allocated-numa-node"}
    assert replace(read, unreleased_options=frozenset()) == scored()


def test_options_of_a_kubelet_to_come_leave_the_rest_readable() -> None:
    read = kubelet_configuration(
        raw(
            cpuManagerPolicyOptions={"full-pcpus-only": "true", "be-quick": "true"},
            topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "true", "prefer-blue": "0"},
        )
    )
    assert read.cpu_options == {CpuOption.FULL_PCPUS_ONLY}
    assert read.topology_options == {TopologyOption.PREFER_CLOSEST}
    assert read.unknown_options == {"be-quick", "prefer-blue"}


def test_values_of_unreleased_options_leave_the_rest_readable() -> None:
    read = kubelet_configuration(
        raw(
            topologyManagerPolicy="restricted",
            cpuManagerPolicyOptions={"align-by-socket": "1", "x" * 200: ""},
            topologyManagerPolicyOptions={
                "prefer-most-allocated-numa-node": True,
                "numa-allocation-strategy": 3,
                "numa-score-weights": ["cpu"],
            },
        )
    )
    assert (read.policy, read.cpu_options) == (Policy.RESTRICTED, frozenset({CpuOption.ALIGN_BY_SOCKET}))
    assert (read.topology_options, read.weights) == (frozenset(), ())
    assert read.unknown_options == {
        "x" * LONGEST_UNKNOWN,
        "prefer-most-allocated-numa-node: must be a string, not true or false",
        "numa-allocation-strategy: must be a string, not a number",
        "numa-score-weights: must be a string, not a list",
    }


def test_unknown_options_are_kept_in_part() -> None:
    many = {f"x{at:03}": "true" for at in range(300)}
    read = kubelet_configuration(raw(cpuManagerPolicyOptions=many))
    assert read.unknown_options == frozenset(sorted(many)[:MOST_UNKNOWN])

    [long] = scored(numa_allocation_strategy="x" * 200).unknown_options
    assert long == f"numa-allocation-strategy={'x' * 200}"[:LONGEST_UNKNOWN]


def test_policy_none_does_not_look_at_its_options() -> None:
    options = {"max-allowable-numa-nodes": "many", "prefer-closest-numa-nodes": "true", "nonsense": 1}
    read = kubelet_configuration(raw(topologyManagerPolicy="none", topologyManagerPolicyOptions=options))
    assert read == KubeletConfiguration("n", Policy.NONE)


@pytest.mark.parametrize(
    ("minor", "told", "on"),
    table(
        [
            ("on with all that are alpha", 36, {"AllAlpha": True}, True),
            ("off by name", 36, {"AllAlpha": True, "PodLevelResourceManagers": False}, False),
            ("on by name", 36, {"AllAlpha": False, "PodLevelResourceManagers": True}, True),
            ("alpha, and so not on with all that are beta", 36, {"AllBeta": True}, False),
            ("off with all that are alpha", 36, {"AllAlpha": False}, False),
            ("beta from 1.37 on", 37, {"AllBeta": True}, True),
            ("no longer alpha", 37, {"AllAlpha": True}, False),
            ("beta where nobody knows the version", None, {"AllBeta": True}, True),
        ]
    ),
)
def test_a_gate_is(minor: int | None, told: dict[str, bool], on: bool) -> None:  # noqa: FBT001  a column of the table
    gates = kubelet_configuration(raw(featureGates=told)).gates

    assert (FeatureGate.POD_LEVEL_MANAGERS in gates.on(minor)) is on


@pytest.mark.parametrize("option", CpuOption)
def test_every_option_of_the_cpu_manager_is_known(option: CpuOption) -> None:
    assert kubelet_configuration(raw(cpuManagerPolicyOptions={option: "true"})).cpu_options == {option}


KEPT = [
    ("the default threshold", {}, 100 * MIB),
    ("a threshold", {"evictionHard": {"memory.available": "1Gi"}}, GIB),
    ("no threshold", {"evictionHard": {}}, 0),
    ("other thresholds", {"evictionHard": {"nodefs.available": "10%"}}, 0),
    ("other thresholds beside the default ones",
        {"evictionHard": {"nodefs.available": "10%"}, "mergeDefaultEvictionSettings": True}, 100 * MIB),
    ("a threshold beside the default ones",
        {"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": True}, GIB),
    ("a share", {"evictionHard": {"memory.available": "5%"}}, None),
    ("everything together", {"kubeReserved": {"memory": "1Gi"}, "systemReserved": {"memory": "2Gi"}},
        3 * GIB + 100 * MIB),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "memory"), table(KEPT))
def test_so_much_is_kept_of_the_node(fields: dict[str, Any], memory: int | None) -> None:
    read = kubelet_configuration(raw(**fields, **kept_on_zones("1Gi")))
    assert read.reserved == Reserved({ZoneId(0): Resources({"memory": GIB})}, memory)


def test_one_zone_may_have_several_entries() -> None:
    told = [{"numaNode": 1, "limits": {"memory": "1Gi"}}, {"numaNode": 1, "limits": {"hugepages-1Gi": "2Gi"}}]
    read = kubelet_configuration(raw(reservedMemory=told))
    assert read.reserved is not None
    assert read.reserved.zones == {ZoneId(1): Resources({"memory": GIB, "hugepages-1Gi": 2 * GIB})}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "topologyManagerPolicy": "",
            "topologyManagerScope": None,
            "topologyManagerPolicyOptions": None,
            "cpuManagerPolicyOptions": None,
            "featureGates": {},
            "reservedSystemCPUs": "",
            "kubeReserved": None,
            "reservedMemory": None,
            "evictionHard": {"memory.available": "1Gi"},
        },
    ],
    ids=["absent", "empty"],
)
def test_what_is_not_written_stays_open(fields: dict[str, Any]) -> None:
    assert kubelet_configuration(raw(**fields)) == KubeletConfiguration("n")


def test_every_mistake_is_told_with_its_path() -> None:
    written = {
        "topologyManagerPolicy": "strict",
        "topologyManagerScope": 1,
        "cpuManagerPolicy": "Static",
        "memoryManagerPolicy": "static",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "many"},
    }

    assert mistakes(BadTopology, kubelet_configuration, written) == [
        "metadata.name: is missing",
        (
            'topologyManagerPolicy: "strict" is not a known value: '
            "none, best-effort, restricted, single-numa-node"
        ),
        'topologyManagerPolicyOptions.max-allowable-numa-nodes: must be a whole number, not "many"',
        "topologyManagerScope: must be a string, not a number",
        'cpuManagerPolicy: "Static" is not a known value: none, static',
        'memoryManagerPolicy: "static" is not a known value: None, Static',
    ]


WRONG = [
    ("options with words that are none",
        {"cpuManagerPolicyOptions": {"full-pcpus-only": "yes", "align-by-socket": ""}},
        ['cpuManagerPolicyOptions.full-pcpus-only: "yes" is neither "true" nor "false"',
            'cpuManagerPolicyOptions.align-by-socket: "" is neither "true" nor "false"']),
    ("an option without quotes", {"cpuManagerPolicyOptions": {"full-pcpus-only": True}},
        ["cpuManagerPolicyOptions.full-pcpus-only: must be a string, not true or false"]),
    ("a gate in quotes", {"featureGates": {"PodLevelResourceManagers": "true"}},
        ['featureGates.PodLevelResourceManagers: must be true or false, not "true"']),
    ("all gates in quotes", {"featureGates": {"AllAlpha": "true"}},
        ['featureGates.AllAlpha: must be true or false, not "true"']),
    ("objects that are none", {"cpuManagerPolicyOptions": [], "featureGates": "x", "evictionHard": 1},
        ["cpuManagerPolicyOptions: must be an object, not a list",
            'featureGates: must be an object, not "x"',
            "evictionHard: must be an object, not a number"]),
    ("CPUs that are no list", {"reservedSystemCPUs": "3-1"},
        ['reservedSystemCPUs: "3-1" is not a CPU ID or range, as in 0-3,8']),
    ("CPUs that are no text", {"reservedSystemCPUs": 0},
        ["reservedSystemCPUs: must be a string, not a number"]),
    ("what cannot be kept of a node",
        {"kubeReserved": {"hugepages-1Gi": "1Gi"}, "systemReserved": {"cpu": "-1"}},
        ["kubeReserved.hugepages-1Gi: cannot be reserved: only cpu, memory, ephemeral-storage, pid can",
            'systemReserved.cpu: "-1" is negative: an amount is zero or more']),
    ("what cannot be kept of a zone",
        {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1", "memory": "0"}}]},
        ["reservedMemory[0].limits.cpu: cannot be reserved on a zone: only memory and hugepages can",
            "reservedMemory[0].limits.memory: is zero: remove it"]),
    ("entries that say too little", {"reservedMemory": [{"limits": {"memory": "1Gi"}}, {"numaNode": -1}]},
        ["reservedMemory[0].numaNode: is missing",
            "reservedMemory[1].numaNode: must be at least 0, not -1",
            "reservedMemory[1].limits: is missing"]),
    ("the same memory twice",
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}},
                {"numaNode": 0, "limits": {"memory": "1Gi"}}]},
        ["reservedMemory[1].limits.memory: is reserved on zone 0 twice"]),
    ("a threshold that is none", {"evictionHard": {"memory.available": "much"}, **kept_on_zones("1Gi")},
        [('evictionHard[memory.available]: "much" is not a quantity: '
                "write a number with at most one suffix, like 4, 500m or 16Gi\n  much\n  ^")]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), table(WRONG))
def test_what_no_kubelet_would_read_is_a_mistake(fields: dict[str, Any], said: list[str]) -> None:
    assert mistakes(BadTopology, kubelet_configuration, raw(**fields)) == said


def test_memory_told_size_by_size_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {f"hugepages-{size}Ki": f"{size}Ki" for size in range(1, 2001)}
    told = [{"numaNode": 0, "limits": {name: amount}} for name, amount in sizes.items()]
    made: list[Resources] = []
    plus = Resources.plus

    def counted(bag: Resources, other: Mapping[str, int]) -> Resources:
        made.append(bag)
        return plus(bag, other)

    monkeypatch.setattr(Resources, "plus", counted)
    read = kubelet_configuration(raw(reservedMemory=told))

    assert read.reserved is not None
    assert len(read.reserved.zones[ZoneId(0)]) == len(sizes)
    assert len(made) < 10
