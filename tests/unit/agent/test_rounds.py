"""What changes is looked at soon, published at most twice a second, and tried again when that fails."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from agent.metrics import AgentMetrics
from agent.observation import Observation
from agent.report import NodeReport
from agent.rounds import (
    CHECKPOINTS,
    MOST_DOUBTS,
    POLL_SECONDS,
    REFUSED_SECONDS,
    UNREACHABLE_SECONDS,
    WRITE_SECONDS,
    Rounds,
    Wakeups,
)
from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.model.errors import BadInput, BadTopology, Mistake
from tests.unit.agent.observations import container, listed, observation, pod
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table

SOON = 2 * POLL_SECONDS
"""Seconds within which a change is noticed and its files are quiet."""


class EndOfTimeError(Exception):
    """Raised when a test has waited for long enough."""


@dataclass
class World:
    """A node on which pods come and go at their times, and an API server; its clock turns with each sleep."""

    changes: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    end: float = 10.0
    now: float = 0.0
    blind: bool = False
    doubted: frozenset[str] = frozenset()
    unsettled: bool = False
    pods: tuple[str, ...] = ()
    look_error: Callable[[float], ClusterError | BadInput | None] = lambda _: None
    write_error: Callable[[float], ClusterError | None] = lambda _: None
    looks: list[float] = field(default_factory=list)
    writes: list[tuple[float, int]] = field(default_factory=list)
    observed: list[NodeReport] = field(default_factory=list)
    journal: RecordedLog = field(default_factory=RecordedLog)

    def __post_init__(self) -> None:
        self._heard: set[float] = set()
        self.registry = CollectorRegistry()

    async def sleep(self, seconds: float) -> None:
        self.now = round(self.now + seconds, 6)
        for moment, pods in self.changes.items():
            if moment <= self.now:
                self.pods = pods
        if self.now >= self.end:
            raise EndOfTimeError

    def changed(self) -> bool:
        come = {moment for moment in self.changes if moment <= self.now}
        new, self._heard = come - self._heard, come
        return bool(new)

    async def observe(self) -> Observation:
        self.looks.append(self.now)
        if error := self.look_error(self.now):
            raise error
        held = [listed(name, container("main", str(at))) for at, name in enumerate(self.pods, start=1)]
        twins = [pod(f"{name}-2", name) for name in self.pods if name in self.doubted]
        return observation(*(pod(name, name) for name in self.pods), *twins, listed=held)

    async def publish(self, report: NodeReport) -> None:
        if error := self.write_error(self.now):
            raise error
        self.writes.append((self.now, len(report.pods)))

    async def live(self, **intervals: float) -> Rounds:
        rounds = Rounds(
            self.observe, self, self, log=self.journal.log, **intervals,
            metrics=AgentMetrics(self.registry, clock=lambda: self.now), observed=self.observed.append,
            clock=lambda: self.now, sleep=self.sleep, chance=lambda: 0.5
        )  # fmt: skip
        with pytest.raises(EndOfTimeError):
            await rounds.run()
        return rounds

    def sample(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"numalign_agent_{name}", labels)


@pytest.mark.parametrize(("world", "intervals", "looks", "writes"), table([
    # when it looks                        the world                  seconds     looks, and writes
    ("at once",                            {"end": 1},                {}, [0], 1),
    ("when files change",                  {"changes": {3.0: ()}, "end": 5}, {}, [0, 3.1], 1),
    ("from time to time",                  {"end": 10},               {"resync": 3}, [0, 3, 6, 9], 1),
    ("each second if no file tells",       {"end": 5, "blind": True}, {}, [0, 1, 2, 3, 4], 1),
    ("and writes while it is unsettled",
        {"end": 4.9, "unsettled": True}, {"resync": 1}, [0, 1, 2, 3, 4], 5),
]))  # fmt: skip
async def test_it_looks(
    world: dict[str, Any], intervals: dict[str, float], looks: list[float], writes: int
) -> None:
    rounds = await (seen := World(**world)).live(**intervals)
    assert seen.looks == pytest.approx(looks, abs=0.5)
    assert len(seen.writes) == writes
    assert seen.writes[0] == (0, 0)
    assert rounds.waiting_for is None


async def test_change_after_an_empty_one_is_not_late() -> None:
    """A pod's folder may be there before its CPUs are."""
    world = World({3.0: (), 3.15: ("web",)}, end=5)
    await world.live()
    assert len([moment for moment in world.looks if moment > 2]) == 2
    assert world.writes[-1][0] < 3.15 + WRITE_SECONDS


async def test_changes_in_a_row_are_published_once() -> None:
    world = World({3.01: ("half",), 3.03: ("half",), 3.05: ("web", "db")}, end=5)
    await world.live()
    assert [count for _, count in world.writes] == [0, 2]


async def test_busy_files_are_read_all_the_same() -> None:
    changes = {1 + step / 100: (f"pod-{step}",) for step in range(200)}
    world = World(changes, end=4)
    await world.live()
    assert len([moment for moment in world.looks if 1 < moment < 3]) >= 3


async def test_writes_are_limited_and_the_last_is_newest() -> None:
    changes = {1 + step / 10: tuple(f"pod-{n}" for n in range(step % 3 + 1)) for step in range(50)}
    world = World(changes, end=8)
    await world.live()
    moments = [moment for moment, _ in world.writes]
    assert all(later - earlier >= WRITE_SECONDS for earlier, later in pairwise(moments))
    assert len(moments) > 8
    assert world.writes[-1][1] == len(world.pods)


async def test_left_out_pod_is_read_again_for_a_while() -> None:
    world = World({3.0: ("web",)}, end=20, doubted=frozenset({"web"}))
    await world.live()
    assert len(world.looks) == 2 + MOST_DOUBTS
    assert world.looks[-1] < 6
    assert world.sample("pods_left_out") == 1


async def test_report_is_refreshed_at_intervals() -> None:
    world = World(end=30)
    await world.live(resync=1, heartbeat=10)
    gaps = [b - a for (a, _), (b, _) in pairwise(world.writes)]
    assert gaps
    assert all(7 < gap <= 10 for gap in gaps)


async def test_absent_kubelet_is_retried_and_logged_once() -> None:
    gone = Unreachable("it restarts")
    world = World(end=30, look_error=lambda now: gone if now < 20 else None)
    rounds = await world.live()
    assert (
        len(world.journal.of("node.observation_failed"))
        == len(world.journal.of("node.observation_recovered"))
        == 1
    )
    gaps = [b - a for a, b in pairwise(world.looks)]
    assert max(gaps) <= UNREACHABLE_SECONDS + SOON
    assert gaps[0] < 1
    assert rounds.waiting_for is None
    assert world.sample("looks_total", result="failed") == len(world.looks) - 1
    assert world.sample("look_age_seconds") == pytest.approx(30 - world.looks[-1])


async def test_returned_kubelet_is_read_on_change() -> None:
    denied = Forbidden("it does not know yet who may ask")
    world = World({20.0: ("web",)}, end=21, look_error=lambda now: denied if now < 20 else None)
    await world.live()
    assert world.looks[-2] < 16
    [(moment, count)] = world.writes
    assert (moment < 20 + SOON, count) == (True, 1)


async def test_new_failure_is_logged_again() -> None:
    errors: list[ClusterError | BadInput] = [
        Unreachable("no"),
        Forbidden("no"),
        BadTopology([Mistake("zones", "are none")]),
    ]
    world = World(end=20, look_error=lambda _: errors[len(world.looks) % 3])
    rounds = await world.live()
    assert len(world.journal.of("node.observation_failed")) == 3
    assert world.writes == []
    assert rounds.waiting_for == "the first report"


async def test_outage_keeps_only_the_newest_report() -> None:
    changes = {float(second): tuple(f"pod-{n}" for n in range(second % 4)) for second in range(1, 12)}
    away = Unreachable("nobody answers")
    world = World(changes, end=20, write_error=lambda now: away if 2 <= now < 10.5 else None)
    await world.live()
    during = [count for moment, count in world.writes if moment >= 10.5]
    assert during[-1] == len(world.pods)
    first = next(moment for moment, _ in world.writes if moment >= 10.5)
    assert first < 10.5 + UNREACHABLE_SECONDS * 1.25 + SOON
    assert (
        len(world.journal.of("topology.write_failed"))
        == len(world.journal.of("topology.write_recovered"))
        == 1
    )


async def test_refused_writes_back_off() -> None:
    denied = Forbidden("you may not")
    tries: list[float] = []

    def write(now: float) -> ClusterError | None:
        tries.append(now)
        return denied

    world = World(end=100, write_error=write)
    await world.live()

    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps[-1] == pytest.approx(REFUSED_SECONDS, abs=1)
    assert len(tries) < 12


async def test_each_report_that_differs_is_given_on_once() -> None:
    world = World({2.0: ("web",), 4.0: ("web",)}, end=6)
    await world.live(heartbeat=1)
    assert [len(each.pods) for each in world.observed] == [0, 1]


async def test_unwritable_report_is_logged_once() -> None:
    world = World({1.0: (many := tuple(f"pod-{n:0200}" for n in range(600))), 2.0: (*many, "one")}, end=4)
    await world.live()
    assert len(world.journal.of("topology.incomplete")) >= 1
    assert world.sample("pods_left_out") == 0


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    (tmp_path / "device-plugins").mkdir()
    (tmp_path / "device-plugins" / "plugin.sock").touch()
    for name in CHECKPOINTS[:3]:
        (tmp_path / name).write_text("{}")
    (tmp_path / "pods").mkdir()
    (tmp_path / "kubelet.sock").touch()
    return tmp_path


def replaced(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("{}")
    new.replace(path)


@pytest.mark.parametrize("change", table([
    ("written",            lambda folder: (folder / "cpu_manager_state").write_text("{} ")),
    ("replaced",           lambda folder: replaced(folder / "memory_manager_state")),
    ("in a folder",        lambda folder: replaced(folder / "device-plugins/kubelet_internal_checkpoint")),
    ("gone",               lambda folder: (folder / "cpu_manager_state").unlink()),
    ("a pod came",         lambda folder: (folder / "pods" / "uid").mkdir()),
    ("a plugin ended",     lambda folder: (folder / "device-plugins" / "plugin.sock").unlink()),
    ("the socket is gone", lambda folder: (folder / "kubelet.sock").unlink()),
]))  # fmt: skip
def test_a_change_is_noticed_once(kubelet: Path, change: Callable[[Path], object]) -> None:
    wakeups = Wakeups(kubelet, kubelet / "kubelet.sock")
    assert not wakeups.changed()
    change(kubelet)
    assert wakeups.changed()
    assert not wakeups.changed()


def test_checkpoints_that_come_later_are_noticed(tmp_path: Path) -> None:
    wakeups = Wakeups(tmp_path, tmp_path / "kubelet.sock")
    (tmp_path / "cpu_manager_state").write_text("{}")
    assert wakeups.changed()
    assert not wakeups.blind
    assert Wakeups(tmp_path / "nothing", tmp_path / "kubelet.sock").blind
