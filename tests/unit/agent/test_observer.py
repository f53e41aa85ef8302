"""One look at a node, put together from all that tells of it."""

import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from errno import ENOENT
from os import strerror
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import podresources_pb2 as pb
from agent.kubelet_api import KubeletApi
from agent.observation import Allocatable, Checkpoints, KubeletPod, ListedPod, Observation, Unobserved
from agent.observer import (
    REREAD_SECONDS,
    RETRY_PAUSES,
    START_SECONDS,
    YOUNG_SECONDS,
    CreationTimes,
    NodePaths,
    Observer,
    Start,
    from_the_api_server,
)
from agent.unary import CallRefused
from numalign.kube.errors import Unreachable
from numalign.model.errors import BadInput
from tests.unit.agent.fabricated import write
from tests.unit.agent.observations import checkpoints, container, listed, observation, pod
from tests.unit.agent.test_hardware import TWO_ZONES
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tools.clusters.podresources import FakePodResources

WEB = KubeletPod("uid-1", "default", "web", "Running", deleted=False)
OTHER = KubeletPod("uid-3", "default", "other", "Running", deleted=False)
STATIC = {"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static", "version": "v1.34.4"}
AWAY = Unreachable("the API server is away")
BUSY = grpc.StatusCode.RESOURCE_EXHAUSTED


@dataclass
class World(KubeletApi):
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


# Whether a kubelet that has just started knows its pods already.


def aged(name: str, created: int) -> KubeletPod:
    return replace(pod(f"uid-{name}", name), created=created)


OLD, MIDDLE, NEW = aged("old", 100), aged("web", 200), aged("new", 300)
KNOWN: CreationTimes = {("team", "old"): 100, ("team", "web"): 200}


def look(*pods: KubeletPod, names: Sequence[str] = ()) -> Observation:
    return observation(*pods, listed=[listed(name) for name in names])


def own(*pods: KubeletPod) -> list[KubeletPod]:
    return [replace(pod, from_kubelet=True) for pod in pods]


def lacking(start: Start, *looks: Observation) -> list[str]:
    """What shows in each of these looks, one after another, that it is too early."""
    found = []
    for each in looks:
        why, start = start.check(each)
        found.append(why)
    return found


STATIC_POD = replace(NEW, static=True)
ENDED = replace(MIDDLE, phase="Failed")
BOTH_OWN, BOTH = look(*own(OLD, MIDDLE), names=["old"]), look(OLD, MIDDLE, names=["old"])
PENDING, LEAVING = replace(OLD, phase="Pending"), replace(NEW, deleted=True)
SAVED = checkpoints({"uid-web": {"app": "2-3"}, "uid-idle": {"app": ""}})
ALONE, GONE = replace(look(), checkpoints=SAVED), replace(look(), checkpoints=checkpoints())
FOUND = replace(look(*own(MIDDLE), names=["web"]), checkpoints=SAVED)
OWN_UID = checkpoints({"uid-of-the-kubelet": {"app": "2-3"}})
MIRROR = replace(MIDDLE, static=True)
HOLDING = listed("web", container("app", "2-3"))
SHARED = replace(listed("web", container("app")), cpus=0b1100)
AS_WHOLE = replace(OWN_UID, pod_cpus={"uid-of-the-kubelet": 0b1100})


def young(created: int) -> Observation:
    return look(OLD, replace(NEW, created=created), names=["old", "new"])


@pytest.mark.parametrize(("known", "looks", "why"), table([
    # what is listed                     known before  looks, and why each is too early
    ("some of the known pods",           KNOWN, [look(OLD, MIDDLE, names=["old"])], [WAIT]),
    ("all known pods",                   KNOWN, [look(OLD, MIDDLE, names=["old", "web"])], [""]),
    ("each known pod once",              KNOWN, [look(names=["old"]), look(names=["web"])], [WAIT, ""]),
    ("a younger pod, so that older ones were rejected", KNOWN, [young(300)], [""]),
    ("a pod of the same second",         KNOWN, [young(200)], [WAIT]),
    ("a pod of unknown age",             KNOWN, [young(0)], [WAIT]),
    ("a static pod, which proves nothing", KNOWN, [look(STATIC_POD, names=["new"])], [WAIT]),
    ("no known pod of unknown age",      {("team", "web"): 0}, [look(NEW, names=["new"])], [WAIT]),
    ("all but an ended pod",             KNOWN, [look(OLD, ENDED, names=["old"])], [""]),
    ("all but the successor of an ended pod", KNOWN, [look(OLD, ENDED, MIDDLE, names=["old"])], [WAIT]),
    ("all but a pod that it knows, twice", KNOWN, [BOTH_OWN, BOTH_OWN], [WAIT, ""]),
    ("all but a pod of the API server, twice", KNOWN, [BOTH, BOTH], [WAIT, WAIT]),
    ("running pods at last", None, [look(PENDING, MIDDLE, LEAVING), look(MIDDLE, names=["web"])], [WAIT, ""]),
    ("no pod, as none runs",             None, [look(PENDING, LEAVING)], [""]),
    ("no pod, as one is static",         None, [look(MIRROR)], [""]),
    ("pods with CPUs at last",           None, [ALONE, ALONE, FOUND], [WAIT, WAIT, ""]),
    ("no pod with CPUs, as it is gone",  None, [ALONE, GONE], [WAIT, ""]),
    ("no pod with CPUs, but none is awaited", {}, [ALONE], [""]),
    ("a static pod by its CPUs",         None, [observation(MIRROR, listed=[HOLDING], saved=OWN_UID)], [""]),
    ("a static pod with shared CPUs",    None, [observation(MIRROR, listed=[SHARED], saved=AS_WHOLE)], [""]),
]))  # fmt: skip
def test_new_kubelet_lists(known: CreationTimes | None, looks: list[Observation], why: list[str]) -> None:
    assert lacking(Start(known), *looks) == why


def test_known_pods_are_listed_and_not_static() -> None:
    static, ended = replace(OLD, static=True), replace(NEW, phase="Succeeded")
    seen = look(static, MIDDLE, ended, aged("bound", 400), names=["old", "web", "new", "gone"])
    assert from_the_api_server(seen) == {("team", "web"): 200}


@dataclass(frozen=True)
class Starting:
    """A kubelet that starts: which pods it was sent, in its order, and how many it had at each call."""

    known: CreationTimes
    sent: list[KubeletPod]
    refused: frozenset[str]
    looks: list[tuple[int, int]]
    way: bool

    def look(self, at_list: int, at_pods: int) -> Observation:
        names = [pod.name for at, pod in enumerate(self.sent[:at_list]) if self._shown(at, at_list)]
        pods = own(*self.sent[:at_pods]) if self.way else self.sent
        return observation(*pods, listed=[ListedPod("team", name, ()) for name in names])

    def _shown(self, at: int, at_list: int) -> bool:
        """It lists the pod that it has just come to before it refuses it."""
        return self.sent[at].name not in self.refused or at == at_list - 1


@st.composite
def startings(draw: st.DrawFn) -> Starting:
    ages = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    before = [aged(f"known-{number}", age) for number, age in enumerate(ages)]
    after = [aged(f"new-{number}", age) for number, age in enumerate(draw(st.lists(st.integers(1, 6))))]
    left = [pod for pod in before if draw(st.booleans())]
    sent = sorted(draw(st.permutations([*left, *after])), key=lambda pod: pod.created)
    calls = sorted(draw(st.lists(st.integers(0, len(sent)), min_size=2, max_size=8)))
    known = {(pod.namespace, pod.name): pod.created for pod in before}
    refused = frozenset(pod.name for pod in sent if draw(st.booleans()))
    return Starting(known, sent, refused, [*zip(calls[::2], calls[1::2], strict=False)], draw(st.booleans()))


@given(startings())
def test_list_counts_after_all_known_pods(case: Starting) -> None:
    said = lacking(Start(case.known), *(case.look(*each) for each in case.looks))
    for (at_list, _), early in zip(case.looks, said, strict=True):
        yet_to_come = [pod.name for pod in case.sent[at_list:] if (pod.namespace, pod.name) in case.known]
        assert early or not yet_to_come


@given(startings())
def test_complete_list_is_used(case: Starting) -> None:
    sent = {pod.name for pod in case.sent}
    whole = replace(case, way=True, known={name: at for name, at in case.known.items() if name[1] in sent})
    every = whole.look(len(case.sent), len(case.sent))
    assert lacking(Start(whole.known), every, every)[1] == ""
