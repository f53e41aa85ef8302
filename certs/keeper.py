"""
The controller's part in the certificates: make the shared pair, keep it fresh, and let callers trust it.

Whoever leads does what is due. The others look on and change nothing: they see what the leader sees, so that
the next one knows how long a step has been known, and what stood in the Secret if somebody has deleted it.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs import bundle, rotation
from certs.rotation import DAYS, SETTLE_SECONDS, Plan, Step
from certs.secret import Place
from certs.shared import Look, SharedPair
from numalign.kube.client import Api, ClusterError
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

LOOK_SECONDS = 10.0
# As long as nothing could be looked at, nobody can be answered.
WAITING_SECONDS = 1.0


@dataclass(slots=True)
class Certificates:
    """Keeps the pair of a Secret and `configuration`'s bundle fresh, while `leading` says yes.

    It looks `every` so many seconds, and so do those who serve the pair: `settle`, the seconds that each step
    of a rotation is given to be known to all, has to be several times as long as both together.
    """

    api: Api
    _: KW_ONLY
    namespace: str
    secret: str
    names: Sequence[str]
    configuration: str
    leading: Callable[[], bool]
    log: Log
    registry: CollectorRegistry
    days: int = DAYS
    settle: float = SETTLE_SECONDS
    every: float = LOOK_SECONDS
    now: Clock = utc_now
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = asyncio.sleep
    _shared: SharedPair = field(init=False)
    _rotates: Gauge = field(init=False)
    _steps: Counter = field(init=False)
    _there: bool = field(default=False, init=False)
    _awaited: str = field(default="it was not read yet", init=False)
    _said: dict[str, object] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Declare what is counted."""
        self._shared = SharedPair(
            self.api,
            place=Place(self.namespace, self.secret),
            configuration=self.configuration,
            plan=Plan(self.names, self.days, self.settle),
            now=self.now,
            clock=self.clock,
        )
        self._rotates = Gauge(
            f"{PREFIX}certificate_rotation_timestamp_seconds",
            "When the pair in the Secret begins to be changed, in seconds since 1970; NaN if not by us.",
            registry=self.registry,
        )
        self._rotates.set(math.nan)
        self._steps = Counter(
            f"{PREFIX}certificate_rotations",
            "Steps that this process took in making and changing the shared pair.",
            ["step"],
            registry=self.registry,
        )
        for step in Step:
            self._steps.labels(step.value)

    def trouble(self) -> str | None:
        """What is awaited before there is a pair that can be served, for readiness; None once there was."""
        if self._there:
            return None
        return f"waiting for the certificate in {self._shared.place}: {self._awaited}"

    async def run(self) -> None:
        """Look again and again; never returns, and no failure of the cluster ends it."""
        while True:
            await self.look()
            await self.sleep(self.every if self._there else min(self.every, WAITING_SECONDS))

    async def look(self) -> None:
        """Look once, and do what is due if we lead."""
        try:
            look = await (self._shared.look() if self.leading() else self._shared.seen())
        except ClusterError as error:
            self._awaited = str(error)
            self._say("certificates.failing", self._awaited, error=self._awaited)
            return
        self._count(look)
        self._say("certificates.failing", None)
        self._say_refused(look)
        if self.leading():
            self._say_published(look)

    def _count(self, look: Look) -> None:
        for move in look.moves:
            self._steps.labels(move.step.value).inc()
            self.log.info("certificates.step", step=move.step.value, secret=str(look.found.place))
        held = look.found.state
        self._there = self._there or held is not None
        changes = held is not None and look.found.ours
        self._rotates.set(rotation.rotates(held).timestamp() if held and changes else math.nan)

    def _say_refused(self, look: Look) -> None:
        found = look.found
        self._awaited = "; ".join(map(str, found.mistakes)) or "the replica that leads makes it"
        self._say("certificates.refused", found.mistakes, secret=str(found.place), mistakes=found.mistakes)

    def _say_published(self, look: Look) -> None:
        held = look.found.state
        problems = dict(bundle.problems(look.configurations, held.bundle)) if held else {}
        self._say("certificates.unpublished", problems, name=self.configuration, problems=problems)

    def _say(self, event: str, about: object, **fields: object) -> None:
        """Say what is wrong, but the same only once; nothing, once it is right."""
        if about and self._said.get(event) != about:
            self.log.error(event, **fields)
        self._said[event] = about
