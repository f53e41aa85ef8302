"""
How much one server takes on at once.

Memory is spent on whoever announces a body, and two hundred long ones together are more than a pod has. So
calls and the bytes of their bodies are counted before a body is read, and what is too much is turned away
while it has cost nothing yet. A body counts as it was announced, for the rest of it may come at any moment;
one that does not come in time is given up by the server, so that nobody holds for ever what others wait for.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Excess(StrEnum):
    """What there is too much of."""

    CALLS = "calls"
    BYTES = "bytes"


@dataclass(slots=True)
class Load:
    """The calls being handled, and how long their bodies are together; a bound of 0 is none."""

    max_calls: int
    max_bytes: int
    calls: int = 0
    bytes: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def excess(self, size: int) -> Excess | None:
        """What a call with a body of so many bytes would be too much of; None if it can be taken on.

        One body that is longer than all may be together is taken on while no other is there.
        """
        if self.max_calls and self.calls >= self.max_calls:
            return Excess.CALLS
        if self.max_bytes and self.bytes and self.bytes + size > self.max_bytes:
            return Excess.BYTES
        return None

    @contextmanager
    def carrying(self, size: int) -> Iterator[None]:
        """Count a call and its body while it is handled."""
        self.calls += 1
        self.bytes += size
        self._idle.clear()
        try:
            yield
        finally:
            self.calls -= 1
            self.bytes -= size
            if not self.calls:
                self._idle.set()

    async def none(self) -> None:
        """Wait until no call is being handled."""
        if self.calls:
            await self._idle.wait()
