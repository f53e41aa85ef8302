"""What Volcano's exporter tells of the CPUs of a node, and what it should not."""

import pytest

from numalign.kube.decode.nrt import MOST_ZONES, Topology
from numalign.kube.decode.numatopologies import MOST_PODS, CpuReport, report
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy
from numalign.model.machine import MOST_CPUS
from numalign.model.node import Zone
from tests.worlds.notation import GPU, table, zone
from tests.worlds.objects import Json, mistakes, numatopology


def test_cpus_are_read_zone_by_zone_and_a_zero_may_be_left_out() -> None:
    # Two zones of two cores with two threads each; CPU 0 and its sibling are kept for the system.
    written = numatopology(resReserved={"cpu": "1500m"}, numares={"cpu": {"allocatable": "0-1,3-4,6"}})

    assert report(written) == CpuReport(
        Topology("a", (zone("cpu=4/2/1", at=0), zone("cpu=4/4/2", at=1)), policy=Policy.RESTRICTED),
        threads=2,
        gpus={},
    )


def test_a_cpu_that_a_pod_has_is_not_free_whatever_else_is_said() -> None:
    held = {"name": "main", "allocations": {"cpu": "2-4"}}
    written = numatopology(
        podAllocations=[{"uid": "u", "containerAllocations": [held, {"name": "other"}]}, {}]
    )

    assert [each.free["cpu"] for each in report(written).topology.zones] == [3000, 2000]


def test_a_kubelet_that_gives_out_no_cpus_has_zones_all_the_same() -> None:
    written = numatopology(policies={"CPUManagerPolicy": "none", "TopologyManagerPolicy": ""}, numares=None)

    assert report(written).topology == Topology("a", (zone("", at=0), zone("", at=1)))


def test_where_all_cpus_are_given_out_none_is_listed() -> None:
    zones = report(numatopology(numares={"cpu": {"capacity": 8}})).topology.zones

    assert [each.free["cpu"] for each in zones] == [0, 0]
    assert [each.allocatable["cpu"] for each in zones] == [4000, 4000]


def test_cores_are_told_apart_by_socket_for_each_numbers_its_own() -> None:
    detail = {"0": {}, "1": {"socket": 1}, "2": {"socket": 1, "core": 1}, "3": {}}

    assert report(numatopology(cpuDetail=detail)).threads is None
    assert report(numatopology(cpuDetail={"0": {}, "1": {"socket": 1}})).threads == 1


def test_more_kept_for_the_system_than_there_is_leaves_nothing() -> None:
    zones: tuple[Zone, ...] = report(numatopology(resReserved={"cpu": "999"})).topology.zones

    assert [each.allocatable["cpu"] for each in zones] == [0, 0]


GPUS = [
    # what it shows                     the NUMA ids that are written    GPUs of the node, and of its zones
    ("GPUs on two zones",               [0, 0, 0, 1],                    4, [3, 1]),
    ("a zero may be left out",          [None, None, 1, 1],              4, [2, 2]),
    ("but not all",                     [None, None],                    2, None),
    ("a GPU on no zone",                [0, -1],                         2, None),
    ("one on a zone without CPUs",      [0, 7],                          2, None),
    ("one on whatever",                 [0, "1"],                        2, None),
    ("on a list",                       [0, []],                         2, None),
    ("shared GPUs",                     [0, 1],                          8, None),
    ("none that a plugin serves",       [0, 1],                          0, None),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "total", "expected"), table(GPUS))
def test_gpus_count_where_all_zones_are_known_and_the_plugin_has_as_many(
    ids: list[object], total: int, expected: list[int] | None
) -> None:
    detail = {
        str(at): {"busID": "x", **({} if number is None else {"numa": number})}
        for at, number in enumerate(ids)
    }
    found = report(numatopology(gpuDetail=detail)).with_gpus(total)

    # Which of them are free is not told.
    assert found.uncertain == (frozenset() if expected is None else {GPU})
    assert [each.free[GPU] for each in found.zones if GPU in each.free] == (expected or [])


WRONG = [
    ("nothing", {}, ["spec: is missing"]),
    ("nothing in it", {"metadata": {"name": "a"}, "spec": {}}, ["spec.cpuDetail: is missing"]),
    ("no CPU", numatopology(cpuDetail={}), ["spec.cpuDetail: contains no CPU"]),
    ("CPUs that are none", numatopology(cpuDetail={"x": {}, "-1": {}, "8192": {}, "²": {}, "1": 7, "2": {}}),
        [*(f"spec.cpuDetail{at}: is not a CPU ID: a number below 8192"
           for at in (".x", ".-1", ".8192", "[²]")),
            "spec.cpuDetail.1: must be an object, not a number"]),
    ("places that are none", numatopology(cpuDetail={"0": {"numa": 1024, "socket": -1, "core": "x"}}),
        ["spec.cpuDetail.0.socket: must be at least 0, not -1",
            'spec.cpuDetail.0.core: must be a whole number, not "x"',
            "spec.cpuDetail.0.numa: 1024 is above 1023, the highest NUMA node ID of Linux"]),
    ("policies that nobody knows",
        numatopology(policies={"CPUManagerPolicy": "dynamic", "TopologyManagerPolicy": "strict"}),
        [('spec.policies.TopologyManagerPolicy: "strict" is not a known value: '
                "none, best-effort, restricted, single-numa-node"),
            'spec.policies.CPUManagerPolicy: "dynamic" is not a known value: none, static']),
    ("amounts that are none",
        numatopology(resReserved={"cpu": "-1"}, numares={"cpu": {"allocatable": "7-1"}}, podAllocations={}),
        ['spec.numares.cpu.allocatable: "7-1" is not a CPU ID or range, as in 0-3,8',
            "spec.podAllocations: must be a list, not an object",
            'spec.resReserved.cpu: "-1" is negative: an amount is zero or more']),
    ("a static kubelet whose CPUs nobody lists", numatopology(numares={}), ["spec.numares.cpu: is missing"]),
    ("too many zones", numatopology(cpuDetail={str(at): {"numa": at} for at in range(MOST_ZONES + 1)}),
        ["spec.cpuDetail: names 65 zones: at most 64 are allowed"]),
    ("too many CPUs", numatopology(cpuDetail={str(at): 1 for at in range(MOST_CPUS + 1)}),
        ["spec.cpuDetail: has 8193 CPUs: at most 8192 are allowed"]),
    ("too many pods", numatopology(podAllocations=[1] * (MOST_PODS + 1)),
        ["spec.podAllocations: has 1025 pods with 0 containers: at most 1024 and 4096 are allowed"]),
    ("too many containers", numatopology(podAllocations=[{"containerAllocations": [1] * 2049}] * 2),
        ["spec.podAllocations: has 2 pods with 4098 containers: at most 1024 and 4096 are allowed"]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "said"), table(WRONG))
def test_each_mistake_has_its_place(written: Json, said: list[str]) -> None:
    assert mistakes(BadTopology, report, written) == said


def test_the_largest_machine_of_linux_is_read() -> None:
    detail = {str(at): {"numa": at // 128, "socket": at // 512, "core": at // 2} for at in range(MOST_CPUS)}
    read = report(numatopology(cpuDetail=detail, numares={"cpu": {"allocatable": f"0-{MOST_CPUS - 1}"}}))

    assert len(read.topology.zones) == 64
    assert {each.free["cpu"] for each in read.topology.zones} == {128_000}
