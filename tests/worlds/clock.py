"""A clock that moves only as a test lets it, and sleep by this clock."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
_TURNS = 20
"""How often every other task runs before time passes."""


@dataclass
class Clock:
    """Called, it returns monotonic seconds; `wall` is the time of day, wrong by `jump` seconds."""

    seconds: float = 1000.0
    jump: float = 0.0
    plans: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

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
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                # Tasks that woke up in these turns have not had as many.
                if now == self.seconds and end == min(self.ends):
                    self._advance_to(min([end, *(at for at, _ in self.plans)]))
        finally:
            self.ends.remove(end)
        await asyncio.sleep(0)

    def _advance_to(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
        for plan in [plan for plan in self.plans if plan[0] <= self.seconds]:
            self.plans.remove(plan)
            plan[1]()
