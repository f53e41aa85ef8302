"""
Read what a kubelet lists over its podresources socket.

The kubelet lists a device on several zones once for each of them, and omits a device whose plugin sends a
topology without zones (containerDevicesFromResourceDeviceInstances of pkg/kubelet/cm/container_manager.go).
CPU IDs are sets, never sums: before 1.37, containers that share the CPUs of their pod all list them, and
since then the pod lists them together with those of its containers (GetCPUs, GetPodCPUs of the same file).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf.message import DecodeError, Message

from agent import podresources_pb2 as pb
from agent import unary
from agent.observation import (
    LARGEST_ZONE,
    Allocatable,
    ListedContainer,
    ListedDevice,
    ListedPod,
    MemoryBlock,
    Sites,
    held,
    sites,
)
from numalign.kube.errors import Unreachable
from numalign.model.bitset import union
from numalign.model.errors import LONGEST_TEXT, cut
from numalign.model.machine import MOST_CPUS, CpuSet
from numalign.model.resources import Kind, ZoneId, kind

SERVICE = "/v1.PodResourcesLister"


class PodResources:
    """One kubelet's socket: methods raise `unary.CallRefused`, and `Unreachable` for every other failure."""

    def __init__(
        self, socket: Path, *, within: float = unary.CALL_SECONDS, most: int = unary.LONGEST_MESSAGE
    ) -> None:
        self._socket, self._within, self._most = socket, within, most

    async def listed(self) -> tuple[ListedPod, ...]:
        """Return the node's pods and what their containers hold (`List`); before 1.34 also ended pods."""
        answer = pb.ListPodResourcesResponse()
        with _sensible("List"):
            answer.ParseFromString(await self._call("List", pb.ListPodResourcesRequest()))
            return tuple(
                ListedPod(
                    pod.namespace,
                    pod.name,
                    tuple(
                        ListedContainer(
                            container.name,
                            _cpus(container.cpu_ids),
                            _held_blocks(container.memory),
                            held(_sites(container.devices)),
                        )
                        for container in pod.containers
                    ),
                    _cpus(pod.cpu_ids),
                    _held_blocks(pod.memory),
                )
                for pod in answer.pod_resources
            )

    async def allocatable(self) -> Allocatable:
        """Return what is allocatable (`GetAllocatableResources`); of devices the healthy ones."""
        answer = pb.AllocatableResourcesResponse()
        with _sensible("GetAllocatableResources"):
            request = pb.AllocatableResourcesRequest()
            answer.ParseFromString(await self._call("GetAllocatableResources", request))
            zones = _sites(answer.devices)
            devices = tuple(ListedDevice(*device, zones[device]) for device in sorted(zones))
            return Allocatable(_cpus(answer.cpu_ids), tuple(map(_block, answer.memory)), devices)

    async def _call(self, method: str, request: Message) -> bytes:
        return await unary.call(
            self._socket,
            f"{SERVICE}/{method}",
            request.SerializeToString(),
            within=self._within,
            most=self._most,
        )


@contextmanager
def _sensible(method: str) -> Iterator[None]:
    """Turn errors about an invalid message into `Unreachable`."""
    try:
        yield
    except (DecodeError, ValueError) as error:
        raise Unreachable(f"the kubelet's answer to {method} is invalid: {error}") from error


def _sites(entries: Iterable[pb.ContainerDevices]) -> Sites:
    return sites(
        (entry.resource_name, entry.device_ids, (node.ID for node in entry.topology.nodes))
        for entry in entries
    )


def _held_blocks(blocks: Iterable[pb.ContainerMemory]) -> tuple[MemoryBlock, ...]:
    # Blocks that one finished init container passed on to another have size zero.
    return tuple(_block(block) for block in blocks if block.size)


def _block(block: pb.ContainerMemory) -> MemoryBlock:
    if kind(block.memory_type) is not Kind.MEMORY:
        raise ValueError(f'"{cut(block.memory_type, LONGEST_TEXT)}" is not a memory type')
    zones = {node.ID for node in block.topology.nodes}
    if strange := next((zone for zone in zones if not 0 <= zone <= LARGEST_ZONE), None):
        raise ValueError(f"{strange} is not a NUMA node ID")
    return MemoryBlock(block.memory_type, block.size, tuple(map(ZoneId, sorted(zones))))


def _cpus(ids: Iterable[int]) -> CpuSet:
    cpus = {*ids}
    if strange := next((cpu for cpu in cpus if not 0 <= cpu < MOST_CPUS), None):
        raise ValueError(f"{strange} is not a CPU ID")
    return union(1 << cpu for cpu in cpus)
