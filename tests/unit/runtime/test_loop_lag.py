"""How late the loop is, on a clock that moves only as told."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from numalign.runtime.server import TICK_SECONDS, measure_lag


class Loop:
    """A loop that is late for its timers by so many seconds, one after the other, and then for ever."""

    def __init__(self, *late: float) -> None:
        self.now = 0.0
        self.late: Iterator[float] = iter(late)

    async def sleep(self, seconds: float) -> None:
        late = next(self.late, None)
        if late is None:
            raise asyncio.CancelledError
        self.now += seconds + late


async def counted(*late: float) -> CollectorRegistry:
    registry, loop = CollectorRegistry(), Loop(*late)
    with pytest.raises(asyncio.CancelledError):
        await measure_lag(registry, clock=lambda: loop.now, sleep=loop.sleep)
    return registry


def value(registry: CollectorRegistry, of: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"numalign_event_loop_lag_seconds_{of}", labels)


async def test_each_tick_counts_by_how_late_it_is() -> None:
    registry = await counted(0.0, 0.004, 0.03)
    assert value(registry, "count") == 3
    assert value(registry, "sum") == pytest.approx(0.034)
    assert [value(registry, "bucket", le=bound) for bound in ("0.001", "0.005", "0.05")] == [1, 2, 3]


async def test_ticks_during_a_stall_count() -> None:
    registry = await counted(4.5 * TICK_SECONDS)
    assert value(registry, "count") == 5
    assert value(registry, "sum") == pytest.approx((4.5 + 3.5 + 2.5 + 1.5 + 0.5) * TICK_SECONDS)
