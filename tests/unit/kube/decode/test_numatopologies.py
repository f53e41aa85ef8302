"""The CPUs of a node by Volcano's exporter."""

import pytest

from numalign.kube.decode.nrt import MOST_ZONES, Topology
from numalign.kube.decode.numatopologies import MOST_PODS, CpuReport, report
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy
from numalign.model.machine import MOST_CPUS
from tests.worlds.notation import GPU, table, zone
from tests.worlds.objects import Json, mistakes, numatopology


def test_cpus_are_read_by_zone() -> None:
    # Two zones of two cores with two threads each; CPU 0 and its sibling are kept for the system.
    written = numatopology(resReserved={"cpu": "1500m"}, numares={"cpu": {"allocatable": "0-1,3-4,6"}})
    assert report(written) == CpuReport(
        Topology("a", (zone("cpu=4/2/1", at=0), zone("cpu=4/4/2", at=1)), policy=Policy.RESTRICTED),
        threads=2,
        gpus={},
    )


def test_a_cpu_of_a_pod_is_not_free() -> None:
    main = {"name": "main", "allocations": {"cpu": "2-4"}}
    written = numatopology(
        podAllocations=[{"uid": "u", "containerAllocations": [main, {"name": "other"}]}, {}]
    )
    assert [each.free["cpu"] for each in report(written).topology.zones] == [3000, 2000]


def test_zones_of_a_kubelet_without_static_cpus() -> None:
    written = numatopology(policies={"CPUManagerPolicy": "none", "TopologyManagerPolicy": ""}, numares=None)
    assert report(written).topology == Topology("a", (zone("", at=0), zone("", at=1)))


def test_no_cpu_is_free_when_none_is_listed() -> None:
    zones = report(numatopology(numares={"cpu": {"capacity": 8}})).topology.zones
    assert [each.free["cpu"] for each in zones] == [0, 0]
    assert [each.allocatable["cpu"] for each in zones] == [4000, 4000]


@pytest.mark.parametrize(("ids", "total", "expected"), table([
    # what it shows                     the NUMA ids that are written    GPUs of the node, and of its zones
    ("GPUs on two zones",               [0, 0, 0, 1],                    4, [3, 1]),
    ("a zero may be left out",          [None, None, 1, 1],              4, [2, 2]),
    ("a GPU on no zone",                [0, -1],                         2, None),
    ("one on a zone without CPUs",      [0, 7],                          2, None),
    ("one on a text",                    [0, "1"],                        2, None),
]))  # fmt: skip
def test_gpus_count_if_zones_and_number_agree(ids: list[object], total: int, expected: object) -> None:
    detail = {
        str(at): {"busID": "x", **({} if number is None else {"numa": number})}
        for at, number in enumerate(ids)
    }
    topology = report(numatopology(gpuDetail=detail)).with_gpus(total)
    # It is unknown which of them are free.
    assert topology.uncertain == (frozenset() if expected is None else {GPU})
    assert [each.free[GPU] for each in topology.zones if GPU in each.free] == (expected or [])


@pytest.mark.parametrize(("written", "messages"), table([
    ("no CPU", numatopology(cpuDetail={}), ["spec.cpuDetail: contains no CPU"]),
    ("CPUs that are none", numatopology(cpuDetail={"x": {}, "-1": {}, "8192": {}, "²": {}, "1": 7, "2": {}}),
        [*(f"spec.cpuDetail{at}: is not a CPU ID: a number below 8192"
           for at in (".x", ".-1", ".8192", "[²]")),
            "spec.cpuDetail.1: must be an object, not a number"]),
    ("a static kubelet without a list of CPUs", numatopology(numares={}), ["spec.numares.cpu: is missing"]),
    ("a zone that no Linux has", numatopology(cpuDetail={"0": {"numa": 1024}}),
        ["spec.cpuDetail.0.numa: 1024 is above 1023, the highest NUMA node ID of Linux"]),
    ("too many zones", numatopology(cpuDetail={str(at): {"numa": at} for at in range(MOST_ZONES + 1)}),
        ["spec.cpuDetail: names 65 zones: at most 64 are allowed"]),
    ("too many CPUs", numatopology(cpuDetail={str(at): 1 for at in range(MOST_CPUS + 1)}),
        ["spec.cpuDetail: has 8193 CPUs: at most 8192 are allowed"]),
    ("too many pods", numatopology(podAllocations=[1] * (MOST_PODS + 1)),
        ["spec.podAllocations: has 1025 pods with 0 containers: at most 1024 and 4096 are allowed"]),
    ("too many containers", numatopology(podAllocations=[{"containerAllocations": [1] * 2049}] * 2),
        ["spec.podAllocations: has 2 pods with 4098 containers: at most 1024 and 4096 are allowed"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: Json, messages: list[str]) -> None:
    assert mistakes(BadTopology, report, written) == messages


def test_the_largest_machine_of_linux_is_read() -> None:
    detail = {str(at): {"numa": at // 128, "socket": at // 512, "core": at // 2} for at in range(MOST_CPUS)}
    read = report(numatopology(cpuDetail=detail, numares={"cpu": {"allocatable": f"0-{MOST_CPUS - 1}"}}))
    assert len(read.topology.zones) == 64
    assert {each.free["cpu"] for each in read.topology.zones} == {128_000}
