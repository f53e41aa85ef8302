"""
What attacks share: a place for the programs, and how slow this machine is.

Everything goes to addresses of this machine, in loops that end, and stops with the test.
"""

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tools.clusters import programs

WORK_SECONDS = 0.025
"""What the work takes on the machine that the bounds were found on, with nothing beside it."""

ROUNDS = 10
SLOW = 2.0
"""A machine is slow on which it takes so many times as long."""

BOUND, SLOW_BOUND = 1.0, 2.0
"""Seconds within which every honest call is answered, and on a slow machine."""


def bound() -> float:
    """Seconds within which honest calls are answered on the machine as it is now; other work on it counts."""
    took = max(_work() for _ in range(ROUNDS))
    found = SLOW_BOUND if took > SLOW * WORK_SECONDS else BOUND
    measured = f"{took * 1000:.0f} ms of work, {WORK_SECONDS * 1000:.0f} ms on a machine that is free"
    sys.stdout.write(f"\n  honest calls have at least {found:g} s: {measured}")
    return found


def _work() -> float:
    began = time.perf_counter()
    sum(number * number for number in range(500_000))
    return time.perf_counter() - began


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    async with programs.site(tmp_path) as here:
        yield Arena(here, bound(), objects.nodes(), bound)
