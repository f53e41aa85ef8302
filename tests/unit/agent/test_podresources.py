"""What a kubelet lists, as values."""

from pathlib import Path
from typing import Any

import pytest

from agent import podresources_pb2 as pb
from agent.observation import Allocatable, HeldDevices, ListedContainer, ListedDevice, ListedPod, MemoryBlock
from agent.podresources import PodResources
from agent.podresources_pb2 import ContainerMemory, ContainerResources
from numalign.kube.errors import Unreachable
from numalign.model.resources import ZoneId
from tests.worlds.notation import table
from tools.clusters.podresources import FakePodResources

GPU = "example.com/gpu"


def on(*zones: int) -> pb.TopologyInfo:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=zone) for zone in zones])


def at(*zones: int) -> frozenset[ZoneId]:
    return frozenset(map(ZoneId, zones))


def gpus(*ids: str, zones: tuple[int, ...] = ()) -> pb.ContainerDevices:
    return pb.ContainerDevices(resource_name=GPU, device_ids=ids, topology=on(*zones) if zones else None)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


async def listed(
    socket: Path,
    *containers: ContainerResources,
    **whole: Any,  # noqa: ANN401  fields of the pod
) -> tuple[ListedPod, ...]:
    web = pb.PodResources(name="web", namespace="default", containers=containers, **whole)
    pods = pb.ListPodResourcesResponse(pod_resources=[web])
    async with FakePodResources(listed=pods).serving(socket):
        return await PodResources(socket).listed()


async def allocatable(socket: Path, answer: pb.AllocatableResourcesResponse) -> Allocatable:
    async with FakePodResources(allocatable=answer).serving(socket):
        return await PodResources(socket).allocatable()


async def test_a_pod_is_listed_with_what_its_containers_hold(socket: Path) -> None:
    container = ContainerResources(
        name="app",
        cpu_ids=[10, 2],
        memory=[ContainerMemory(memory_type="memory", size=2**30, topology=on(1, 0))],
        devices=[gpus("b", zones=(0,)), gpus("a", zones=(0,)), gpus("c", zones=(1,))],
    )

    devices = (HeldDevices(GPU, ("a", "b"), at(0)), HeldDevices(GPU, ("c",), at(1)))
    block = MemoryBlock("memory", 2**30, (ZoneId(0), ZoneId(1)))
    app = ListedContainer("app", 1 << 2 | 1 << 10, (block,), devices)
    idle = ListedContainer("idle", 0, (), ())
    found = await listed(socket, container, ContainerResources(name="idle"))
    assert found == (ListedPod("default", "web", (app, idle)),)


async def test_pod_level_resources_are_listed(socket: Path) -> None:
    own = ContainerResources(name="own", cpu_ids=[1])
    # Memory of a size of 0 was handed on.
    blocks = [ContainerMemory(memory_type="memory", size=size, topology=on(0)) for size in (2**30, 0)]
    (pod,) = await listed(socket, own, ContainerResources(name="shares"), cpu_ids=[3, 1, 2], memory=blocks)
    assert (pod.cpus, pod.memory) == (0b1110, (MemoryBlock("memory", 2**30, (ZoneId(0),)),))
    (pod,) = await listed(socket, ContainerResources(name="app", memory=blocks[1:]))
    assert pod.containers[0].memory == ()


@pytest.mark.parametrize(
    ("zones", "found"),
    [((1, 0), at(0, 1)), ((), at()), ((-1,), at(-1)), ((2**40,), at(-1)), ((-1, 1), at(1))],
    ids=["one device on two zones", "without a topology", "-1", "an impossible ID", "-1 beside another"],
)
async def test_a_device_has_zones(socket: Path, zones: tuple[int, ...], found: frozenset[ZoneId]) -> None:
    devices = [gpus("a", zones=(zone,)) for zone in zones] or [gpus("a")]
    (pod,) = await listed(socket, ContainerResources(name="app", devices=devices))
    assert pod.containers[0].devices == (HeldDevices(GPU, ("a",), found),)


async def test_allocatable_lists_each_device(socket: Path) -> None:
    answer = pb.AllocatableResourcesResponse(
        cpu_ids=range(1, 4),
        memory=[ContainerMemory(memory_type="hugepages-1Gi", size=0, topology=on(0))],
        devices=[gpus("b", zones=(1,)), gpus("a", zones=(0,)), gpus("b", zones=(0,)), gpus("c")],
    )
    devices = (ListedDevice(GPU, "a", at(0)), ListedDevice(GPU, "b", at(0, 1)), ListedDevice(GPU, "c", at()))
    pages = MemoryBlock("hugepages-1Gi", 0, (ZoneId(0),))
    assert await allocatable(socket, answer) == Allocatable(0b1110, (pages,), devices)
    assert await allocatable(socket, pb.AllocatableResourcesResponse()) == Allocatable(0, (), ())


def memory(kind: str, *zones: int) -> list[ContainerMemory]:
    return [ContainerMemory(memory_type=kind, size=1, topology=on(*zones))]


@pytest.mark.parametrize(("container", "whole", "why"), table([
    # what is wrong          of a container, or of the pod             what is said of it
    ("a negative CPU",       ContainerResources(cpu_ids=[-1]), {},     "-1 is not a CPU ID"),
    ("no memory",            ContainerResources(memory=memory("cpu")), {}, '"cpu" is not a memory type'),
    ("a zone beyond all",
        ContainerResources(memory=memory("memory", 1024)), {}, "1024 is not a NUMA node ID"),
    ("no resource",
        ContainerResources(devices=[pb.ContainerDevices(device_ids=["a"])]), {}, "is of no resource"),
    ("a CPU of a pod",       ContainerResources(), {"cpu_ids": [1, 8192]}, "8192 is not a CPU ID"),
    ("no memory of a pod",   ContainerResources(), {"memory": memory("cpu")}, '"cpu" is not a memory type'),
]))  # fmt: skip
async def test_invalid_podresources_raise(
    socket: Path, container: ContainerResources, whole: dict[str, Any], why: str
) -> None:
    with pytest.raises(Unreachable, match=f"answer to List is invalid: .*{why}"):
        await listed(socket, container, **whole)


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\xff", b"\x0a\x02\x0a\xff", b"\x0a\x03\x0a\x01\xff"])
async def test_invalid_message_raises(socket: Path, garbage: bytes) -> None:
    async with FakePodResources(garbage=garbage).serving(socket):
        with pytest.raises(Unreachable, match="answer to List is invalid"):
            await PodResources(socket).listed()
        with pytest.raises(Unreachable, match="answer to GetAllocatableResources is invalid"):
            await PodResources(socket).allocatable()
