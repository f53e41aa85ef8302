"""A clock that moves only as a test lets it, and sleep by this clock."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_TURNS = 20
"""How often every other task runs before time passes, if they do not all wait before."""

_QUIET = 2


@dataclass
class Clock:
    """Called, it returns monotonic seconds; `wall` is the time of day, wrong by `jump` seconds."""

    seconds: float = 1000.0
    jump: float = 0.0
    plans: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    turning: int = 0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000 + self.jump)

    def advance(self, seconds: float) -> None:
        """Let time pass, and run what was planned until then."""
        self._advance_to(self.seconds + seconds)

    def after(self, seconds: float, plan: Callable[[], None]) -> None:
        self.plans.append((self.seconds + seconds, plan))

    async def sleep(self, seconds: float) -> None:
        """Sleep; time passes as soon as every task sleeps, up to the next end of a sleep or planned call."""
        end = self.seconds + seconds
        self.ends.append(end)
        try:
            while (now := self.seconds) < end:
                await self.turns(_TURNS)
                # Tasks that woke up in these turns have not had as many.
                if now == self.seconds and end == min(self.ends):
                    self._advance_to(min([end, *(at for at, _ in self.plans)]))
        finally:
            self.ends.remove(end)
        await asyncio.sleep(0)

    async def turns(self, most: int) -> None:
        """Let every other task run until nothing but sleep by this clock goes on, at most so often."""
        due, quiet = vars(asyncio.get_running_loop())["_ready"], 0
        self.turning += 1
        try:
            for _ in range(most):
                await asyncio.sleep(0)
                quiet = quiet + 1 if len(due) < self.turning else 0
                # Of those that turn, one may have been cancelled since.
                if quiet == _QUIET:
                    return
        finally:
            self.turning -= 1

    def _advance_to(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
        for plan in [plan for plan in self.plans if plan[0] <= self.seconds]:
            self.plans.remove(plan)
            plan[1]()
