"""What was seen at one time is published at another; time is a number here."""

import pytest

from tests.unit.tools.sim.stand_ins import Clock, Paper, pod, seeded
from tools.clusters.sim.accounts import Held
from tools.clusters.sim.exporter import Exporter, Publisher, Sample, Timing, attributes
from tools.clusters.sim.fingerprints import Fingerprint, fingerprint
from tools.clusters.sim.kubelet import Active
from tools.clusters.sim.shapes import SimNode


class Bench:
    """A zone with so many CPUs `left`, its exporter, and what was published when."""

    def __init__(self, timing: Timing) -> None:
        self.clock = Clock(100)
        self.left = 4
        self.published: list[tuple[float, int]] = []
        self.exporter = Exporter(self.look, self.publish, timing, clock=self.clock, sleep=self.clock.sleep)

    def look(self) -> Sample:
        """What an exporter sees now."""
        return Sample({0: {"cpu": self.left}}, [])

    async def publish(self, sample: Sample) -> None:
        """Note when it was seen by others."""
        self.published.append((self.clock.now, sample.left[0]["cpu"]))

    def change(self, left: int, *, at: float) -> None:
        """Some pod came or went."""
        self.clock.now, self.left = at, left
        self.exporter.changed()


async def test_observation_is_published_after_its_delay() -> None:
    bench = Bench(Timing(delay=10))
    bench.change(3, at=100)
    bench.change(2, at=104)
    bench.clock.now = 105
    await bench.exporter.next()
    assert bench.published == [(110, 3)]
    await bench.exporter.next()
    assert bench.published[1:] == [(114, 2)]
    assert bench.exporter.quiet


async def test_of_what_is_due_together_only_the_last_is_published() -> None:
    bench = Bench(Timing(delay=1))
    for left in (3, 2, 1):
        bench.change(left, at=100)
    await bench.exporter.next()
    assert bench.published == [(101, 1)]
    assert bench.exporter.quiet


async def test_jitter_keeps_publications_in_order() -> None:
    bench = Bench(Timing(delay=1, jitter=5, chance=seeded(3)))
    for number in range(20):
        bench.change(number, at=100 + number / 10)
    while not bench.exporter.quiet:
        await bench.exporter.next()
    times, seen = zip(*bench.published, strict=True)
    assert list(seen) == sorted(seen)
    assert list(times) == sorted(times)
    assert seen[-1] == 19


async def test_period_delays_a_change_to_the_next_look() -> None:
    bench = Bench(Timing(delay=1, period=10))
    bench.change(3, at=100)
    assert not bench.exporter.quiet
    bench.left = 2
    bench.clock.now = 107
    bench.exporter.sample()
    await bench.exporter.next()
    assert bench.published == [(108, 2)]
    assert bench.exporter.quiet


# ---- what is published

MACHINE = SimNode("n", "small")


def active(name: str, held: Held) -> Active:
    return Active(pod(name), held)


ALIGNED, SHARING = active("a", {(0,): {"cpu": 3000}}), active("b", {})


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param(Fingerprint.ALL, [("team", "a"), ("team", "b")], id="all"),
        pytest.param(Fingerprint.EXCLUSIVE, [("team", "a")], id="those that hold something"),
    ],
)
def test_fingerprint_covers_the_pods_of_its_method(
    method: Fingerprint, expected: list[tuple[str, str]]
) -> None:
    assert attributes([ALIGNED, SHARING], method) == {
        "nodeTopologyPodsFingerprint": fingerprint(expected),
        "nodeTopologyPodsFingerprintMethod": method.value,
    }


async def test_a_fingerprint_and_the_zones_are_of_the_same_moment() -> None:
    desk = Paper()
    publish = Publisher(MACHINE, desk, method=Fingerprint.ALL, observe=False)
    await publish(Sample(dict.fromkeys((0, 1), MACHINE.make.allocatable()), [ALIGNED]))
    [topology] = desk.topologies
    assert {
        "name": "nodeTopologyPodsFingerprint",
        "value": fingerprint([("team", "a")]),
    } in topology["attributes"]
