"""Polling the Secret of a shared pair: what keeper and reader have in common."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from certs.secret import SecretRef
from numalign.kube.client import Api
from numalign.kube.errors import ClusterError
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.logs import Log

CHECK_SECONDS = 10.0
WAITING_SECONDS = 1.0
"""The interval until there is a pair, because no call can be answered without one."""


@dataclass(slots=True)
class SecretWatcher(ABC):
    """Checks the Secret of a pair for `names`, every `every` seconds."""

    api: Api
    _: KW_ONLY
    namespace: str
    secret: str
    names: Sequence[str]
    log: Log
    every: float = CHECK_SECONDS
    now: Clock = utc_now
    sleep: Sleep = asyncio.sleep
    ready: bool = field(default=False, init=False)
    """Whether there was a pair that can be served."""
    _awaited: str = field(default="it has not been read yet", init=False)
    _reported: dict[str, object] = field(default_factory=dict, init=False)

    @property
    def ref(self) -> SecretRef:
        """Return the reference of the Secret."""
        return SecretRef(self.namespace, self.secret)

    def waiting_for(self) -> str | None:
        """Return what readiness is waiting for; None once there was a pair that can be served."""
        return None if self.ready else f"waiting for the certificate in {self.ref}: {self._awaited}"

    async def run(self) -> None:
        """Check again and again; never returns, and no failure of the cluster or the disk ends it."""
        while True:
            await self.check()
            await self.sleep(self.every if self.ready else min(self.every, WAITING_SECONDS))

    async def check(self) -> None:
        """Check once, and do what is due."""
        try:
            await self._check()
            self._report("certificates.failing", None)
        except (ClusterError, OSError) as error:
            self._awaited = str(error)
            self._report("certificates.failing", self._awaited, error=self._awaited)

    @abstractmethod
    async def _check(self) -> None:
        """Check once, and do what is due; raise `ClusterError` and `OSError`."""

    def _report(self, event: str, problem: object, **fields: object) -> None:
        """Log a problem, but the same one only once."""
        if problem and self._reported.get(event) != problem:
            self.log.error(event, **fields)
        self._reported[event] = problem
