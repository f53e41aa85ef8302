"""Two zones of four CPUs, and what a kubelet does with pods: in which order, and until when."""

import asyncio
from typing import Any

import pytest

from tests.unit.tools.sim.stand_ins import Paper, ZonesByHand, pod
from tools.clusters.sim.kubelet import Decision, Kubelet, News, ordered
from tools.clusters.sim.shapes import SimNode

NOW = "2026-01-02T03:04:05Z"


class Bench:
    """A kubelet, and all that it touches. Its pods end when `over` is set."""

    def __init__(self, shape: str = "small") -> None:
        self.managers = ZonesByHand()
        self.desk = Paper()
        self.decisions: list[Decision] = []
        self.changes = 0
        self.over = asyncio.Event()
        self.kubelet = Kubelet(
            SimNode("n", shape),
            self.managers,
            self.desk,
            changed=self.count,
            decisions=self.decisions,
            clock=lambda: 7.0,
            sleep=self.pause,
        )

    def count(self) -> None:
        """Called for every change."""
        self.changes += 1

    async def pause(self, _seconds: float) -> None:
        """A grace that is over when all are."""
        await self.over.wait()

    async def hear(self, *news: News) -> None:
        """Told at once, and handled."""
        for each in news:
            self.kubelet.tell(each)
        await self.kubelet.look()

    async def end(self) -> None:
        """The containers of all deleted pods stop."""
        self.over.set()
        while not self.kubelet.quiet:
            await asyncio.sleep(0)
            await self.kubelet.look()

    @property
    def left(self) -> list[int]:
        """The CPUs of each zone that nobody holds."""
        return [zone["cpu"] // 1000 for zone in self.kubelet.available().values()]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def there(name: str, **more: Any) -> News:  # noqa: ANN401  what `pod` takes
    found = pod(name, **more)
    return News(found["metadata"]["uid"], found)


def gone(name: str) -> News:
    return News(f"uid-{name}")


# ---- the order


def told(batch: list[News]) -> list[str]:
    return [f"{news.uid}{' ended' if news.ended else ''}" for news in batch]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(
            [there("new"), there("old"), gone("gone")],
            ["uid-gone", "uid-new", "uid-old"],
            id="removed pods, then new ones, then those that are known",
        ),
        pytest.param(
            [there("late", creationTimestamp="2026-01-03"), there("early", creationTimestamp="2026-01-02")],
            ["uid-early", "uid-late"],
            id="new pods by creation",
        ),
        pytest.param(
            [there("b"), there("a")], ["uid-b", "uid-a"], id="of the same second, as they were told"
        ),
        pytest.param([there("new"), gone("new")], [], id="a pod that came and went meanwhile"),
        pytest.param([there("old"), gone("old")], ["uid-old"], id="of a pod only the last news"),
        pytest.param(
            [there("new"), News("uid-old", ended=True)],
            ["uid-old ended", "uid-new"],
            id="a pod that has ended makes room first",
        ),
    ],
)
def test_simultaneous_pods_are_admitted_in_kubelet_order(batch: list[News], expected: list[str]) -> None:
    assert told(ordered(batch, ["uid-old", "uid-gone"])) == expected


# ---- admission


async def test_managers_forget_pods_that_fail_node_resources(
    bench: Bench,
) -> None:
    bench.managers.free[0] = 20
    await bench.hear(there("big", cpu=9))
    assert bench.desk.lines == ["big Failed OutOfcpu"]
    assert bench.managers.asked == ["create uid-big", "delete uid-big"]
    assert bench.kubelet.active == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_ended_pod_is_not_admitted(bench: Bench, phase: str) -> None:
    seen = pod("a")
    seen["status"]["phase"] = phase
    await bench.hear(News("uid-a", seen))
    assert (bench.managers.asked, bench.desk.lines) == ([], [])


# ---- the end


async def test_deleted_pod_is_released_before_its_object_goes(bench: Bench) -> None:
    await bench.hear(there("a", cpu=3))
    await bench.hear(there("a", cpu=3, deletionTimestamp=NOW))
    assert bench.left == [1, 4]
    assert not bench.kubelet.quiet
    await bench.end()
    assert bench.left == [4, 4]
    assert bench.managers.asked == ["create uid-a", "delete uid-a"]
    assert bench.desk.lines == ["a Running", "a removed"]


async def test_vanished_pod_is_released_once(bench: Bench) -> None:
    await bench.hear(there("a", cpu=3))
    await bench.hear(there("a", cpu=3, deletionTimestamp=NOW))
    await bench.hear(gone("a"))
    await bench.end()
    assert bench.managers.asked == ["create uid-a", "delete uid-a"]
    assert bench.desk.lines == ["a Running"]


async def test_pod_deleted_before_admission_ends(bench: Bench) -> None:
    await bench.hear(there("a", deletionTimestamp=NOW))
    await bench.end()
    assert bench.desk.lines == ["a Running", "a removed"]
