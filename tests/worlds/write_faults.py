"""The faults of an API server that every writer must survive."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from numalign.kube.errors import Conflict, Failing, Forbidden, InvalidObject, NotFound, Throttled, Unreachable

UNREACHABLE = Unreachable("the API server cannot be reached")
FORBIDDEN = Forbidden("a role has to allow it")
CONFLICT = Conflict("it was changed")
GONE = NotFound("it is gone")
INVALID = InvalidObject("a webhook denied it")
FAILING = Failing("the API server answered 500")
THROTTLED = Throttled("the API server answered 429")
DEFECT = ValueError("a defect of ours")
HANG = TimeoutError("no answer")


@dataclass
class FaultyApi:
    """An API whose calls of one `verb` end in `fault` while it is set; `calls` counts those."""

    api: Any
    verb: str
    fault: Exception | None = None
    calls: int = 0

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        async def call(*arguments: object, **options: object) -> object:
            if name == self.verb and self.fault:
                self.calls += 1
                if self.fault is HANG:
                    await asyncio.Event().wait()
                raise self.fault
            answer: object = await getattr(self.api, name)(*arguments, **options)
            return answer

        return call
