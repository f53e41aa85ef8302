"""One look at a node, put together from all that tells of it."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import grpc
import pytest

from agent import podresources_pb2 as pb
from agent.observation import Allocatable, Checkpoints, KubeletPod, ListedPod, Observation, Unobserved
from agent.observer import REREAD_SECONDS, RETRY_PAUSES, START_SECONDS, YOUNG_SECONDS, NodePaths, Observer
from agent.unary import CallRefused
from numalign.kube.errors import Unreachable
from numalign.model.errors import BadInput
from tests.unit.agent.fabricated import write
from tests.unit.agent.test_hardware import TWO_ZONES
from tests.worlds.log import RecordedLog
from tools.clusters.podresources import FakePodResources

WEB = KubeletPod("uid-1", "default", "web", "Running", deleted=False)
OTHER = KubeletPod("uid-3", "default", "other", "Running", deleted=False)
STATIC = {"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static", "version": "v1.34.4"}
AWAY = Unreachable("the API server is away")
BUSY = grpc.StatusCode.RESOURCE_EXHAUSTED


@dataclass
class World:
    """A node and its kubelet, of which a test can change all; time passes when told, or by sleeping."""

    folder: Path
    journal: RecordedLog = field(default_factory=RecordedLog)
    fake: FakePodResources = field(default_factory=FakePodResources)
    settings: dict[str, object] = field(default_factory=lambda: dict(STATIC))
    has: tuple[KubeletPod, ...] = (WEB,)
    away: Unreachable | None = None
    restarts: bool = False
    asked: int = 0
    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.folder / "kubelet.sock"

    def observer(self, **paths: Path | None) -> Observer:
        where: dict[str, Any] = {"sysfs": self.folder, "state": self.folder, **paths}
        return Observer(
            NodePaths(self.socket, **where), self, log=self.journal.log, clock=lambda: self.now,
            sleep=self.sleep, chance=lambda: 0.0
        )  # fmt: skip

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    async def configuration(self) -> dict[str, object]:
        self.asked += 1
        if self.away:
            raise self.away
        return self.settings

    async def pods(self) -> tuple[KubeletPod, ...]:
        if self.restarts:
            self.socket.touch()
        return self.has


def listing(*names: str) -> pb.ListPodResourcesResponse:
    pods = [pb.PodResources(name=name, namespace="default") for name in names]
    return pb.ListPodResourcesResponse(pod_resources=pods)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    write(TWO_ZONES, tmp_path)
    (tmp_path / "cpu_manager_state").write_text(json.dumps({"policyName": "static", "defaultCpuSet": "0-7"}))
    made = World(tmp_path)
    made.fake.listed = listing("web")
    zone = pb.TopologyInfo(nodes=[pb.NUMANode(ID=0)])
    memory = pb.ContainerMemory(memory_type="memory", size=1, topology=zone)
    made.fake.allocatable = pb.AllocatableResourcesResponse(cpu_ids=[1, 2], memory=[memory])
    async with made.fake.serving(made.socket):
        yield made


async def test_observation_joins_all_sources_of_a_node(world: World) -> None:
    seen = await world.observer().observe()
    assert seen == Observation(
        hardware=TWO_ZONES, kubelet=STATIC, allocatable=Allocatable(0b110, seen.allocatable.memory, ()),
        listed=(ListedPod("default", "web", ()),), pods=(WEB,), checkpoints=Checkpoints({}, {})
    )  # fmt: skip


async def test_constant_data_are_read_at_intervals(world: World) -> None:
    observer = world.observer()
    for _ in range(3):
        await observer.observe()
        world.now += REREAD_SECONDS / 2
    assert (world.asked, world.fake.calls) == (2, {"List": 3, "GetAllocatableResources": 3})
    # A new kubelet is read completely.
    world.now -= REREAD_SECONDS / 2
    world.socket.unlink()
    async with world.fake.serving(world.socket):
        await observer.observe()
    assert world.asked == 3


async def test_unreadable_configuration_keeps_the_last(world: World) -> None:
    observer = world.observer()
    await observer.observe()
    world.now += REREAD_SECONDS
    world.away = AWAY
    assert (await observer.observe()).kubelet == STATIC
    assert world.journal.of("kubelet_config.kept")
    # A new kubelet may have another.
    world.socket.unlink()
    async with world.fake.serving(world.socket):
        with pytest.raises(Unreachable, match="the API server is away"):
            await observer.observe()


@pytest.mark.parametrize("times", [1, len(RETRY_PAUSES)])
async def test_rate_limited_request_is_retried(world: World, times: int) -> None:
    world.fake.refusals = [(BUSY, "rejected by rate limit")] * times
    await world.observer().observe()
    assert world.slept == list(RETRY_PAUSES[:times])


@pytest.mark.parametrize(
    ("code", "calls"), [(BUSY, len(RETRY_PAUSES) + 1), (grpc.StatusCode.UNIMPLEMENTED, 1)], ids=str
)
async def test_refusal_that_lasts_is_given_up(world: World, code: grpc.StatusCode, calls: int) -> None:
    world.fake.refusals = [(code, "not now")] * 100
    with pytest.raises(CallRefused, match="not now"):
        await world.observer().observe()
    assert world.fake.calls["List"] == calls


@pytest.mark.parametrize(("field", "why"), [("cpu_ids", "no CPUs yet"), ("memory", "no memory yet")])
async def test_kubelet_without_running_managers_is_not_used(world: World, field: str, why: str) -> None:
    world.fake.allocatable.ClearField(field)
    observer = world.observer()
    with pytest.raises(Unobserved, match=why):
        await observer.observe()
    world.now += START_SECONDS
    await observer.observe()
    # Managers that give nothing out have nothing.
    world.settings = {"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}
    await world.observer().observe()


WAIT = "the kubelet does not list its pods yet"
OWN = replace(OTHER, from_kubelet=True)


@pytest.mark.parametrize(
    ("pods", "after"), [((WEB, OTHER), START_SECONDS), ((WEB, OWN), 0)], ids=["late", "rejecting others"]
)
async def test_new_kubelet_is_used_at_last(world: World, pods: tuple[KubeletPod, ...], after: float) -> None:
    world.has, world.fake.listed = pods, listing("web", "other")
    observer = world.observer()
    await observer.observe()
    world.socket.touch()
    world.fake.listed = listing("web")
    with pytest.raises(Unobserved, match=WAIT):
        await observer.observe()
    world.now += after
    assert [each.name for each in (await observer.observe()).listed] == ["web"]
    # From then on it may list what it likes.
    world.fake.listed = listing()
    assert (await observer.observe()).listed == ()


async def test_grace_period_begins_with_the_first_answer(world: World) -> None:
    observer = world.observer()
    await observer.observe()
    world.socket.touch()
    world.fake.listed = listing()
    world.away = AWAY
    with pytest.raises(Unreachable):
        await observer.observe()
    world.now += START_SECONDS
    world.away = None
    with pytest.raises(Unobserved):
        await observer.observe()


async def test_first_look_waits_for_running_pods(world: World) -> None:
    world.has = (WEB, OTHER)
    observer = world.observer()
    with pytest.raises(Unobserved, match=WAIT):
        await observer.observe()
    world.fake.listed = listing("web", "other")
    await observer.observe()
    # A kubelet that has run for long has listed them.
    world.fake.listed = listing()
    long_ago = world.socket.stat().st_mtime - YOUNG_SECONDS
    os.utime(world.socket, (long_ago, long_ago))
    assert (await world.observer().observe()).listed == ()


async def test_restart_during_a_look_discards_it(world: World) -> None:
    world.restarts = True
    with pytest.raises(Unobserved, match="restarted during the observation"):
        await world.observer().observe()


async def test_checkpoints_are_optional_and_logged_once(world: World) -> None:
    assert (await world.observer(state=None).observe()).checkpoints is None
    assert not world.journal.lines()
    (world.folder / "cpu_manager_state").write_text('{"version": 9}')
    observer = world.observer()
    assert [(await observer.observe()).checkpoints for _ in range(3)] == [None] * 3
    assert len(world.journal.of("checkpoints.unreadable")) == 1


async def test_invalid_machine_or_absent_kubelet_is_an_error(world: World) -> None:
    with pytest.raises(BadInput, match="cannot be opened"):
        await world.observer(sysfs=world.folder / "elsewhere").observe()
    world.socket.unlink()
    with pytest.raises(Unreachable, match=f"{world.socket} failed: .*{strerror(ENOENT)}"):
        await world.observer().observe()
