"""
A replica's part in the certificates: serve what all share, and help to keep it fresh.

The server looks at a folder, as it does for files made by hand; what stands in the Secret is written there. A
server must listen before the API server was ever reached, so the folder begins with a pair that nobody
trusts, and readiness waits for the shared one. After that nothing that goes wrong here takes a pair away:
what is good goes on being served, and the log says what is wrong, once.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs import authority, bundle, certificate, rotation, state
from certs.authority import Files, Pair
from certs.rotation import DAYS, SETTLE_SECONDS, Plan, Step
from certs.secret import Found, Place
from certs.shared import Look, SharedPair
from numalign.cluster.api import Api, ClusterError
from numalign.rules.errors import Mistake
from numalign.runtime.files import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.tls import Clock, utc_now

LOOK_SECONDS = 10.0
# As long as there is nothing to serve, nobody can be answered.
WAITING_SECONDS = 1.0
START_DAYS = 1


def start_pair(folder: Path, *, names: Sequence[str], now: datetime) -> Files:
    """A pair for a server to listen with until the shared one is there; nobody trusts it.

    Raises `BadOrder` for names that cannot be certified, and `OSError`.
    """
    return authority.write(authority.issue(names=names, days=START_DAYS, now=now), folder)


def _nothing() -> None:
    """For a server that looks at the folder by itself often enough."""


@dataclass(slots=True)
class Certificates:
    """Keeps `folder` holding the pair of a Secret, and the Secret and `configuration`'s bundle fresh.

    It looks `every` so many seconds, and so must the server look at the folder: `settle`, the seconds that
    each step of a rotation is given to be known to all, has to be several times as long as both together.
    `changed` is called when a new pair stands in the folder, so that a server need not wait for its look.
    """

    api: Api
    _: KW_ONLY
    namespace: str
    secret: str
    names: Sequence[str]
    folder: Path
    configuration: str
    log: Log
    registry: CollectorRegistry
    days: int = DAYS
    settle: float = SETTLE_SECONDS
    every: float = LOOK_SECONDS
    now: Clock = utc_now
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = asyncio.sleep
    changed: Callable[[], object] = _nothing
    _shared: SharedPair = field(init=False)
    _rotates: Gauge = field(init=False)
    _steps: Counter = field(init=False)
    _served: Pair | None = field(default=None, init=False)
    _awaited: str = field(default="it was not read yet", init=False)
    _said: dict[str, object] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Declare what is counted."""
        plan = Plan(self.names, self.days, self.settle)
        place = Place(self.namespace, self.secret)
        self._shared = SharedPair(
            self.api,
            place=place,
            configuration=self.configuration,
            plan=plan,
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
        """What is awaited before callers can trust what is served, for readiness; None once they can."""
        if self._served:
            return None
        return f"waiting for the certificate in {self._shared.place}: {self._awaited}"

    async def run(self) -> None:
        """Look again and again; never returns, and no failure of the cluster or the disk ends it."""
        while True:
            await self.look()
            await self.sleep(self.every if self._served else min(self.every, WAITING_SECONDS))

    async def look(self) -> None:
        """Look once: do what is due, and serve what is shared."""
        try:
            look = await self._shared.look()
            self._count(look)
            self._serve(look.found)
            self._say_published(look)
            self._say("certificates.failing", None)
        except (ClusterError, OSError) as error:
            self._awaited = str(error)
            self._say("certificates.failing", self._awaited, error=self._awaited)

    def _count(self, look: Look) -> None:
        for move in look.moves:
            self._steps.labels(move.step.value).inc()
            self.log.info("certificates.step", step=move.step.value, secret=str(look.found.place))
        held = look.found.state
        changes = held is not None and look.found.ours
        self._rotates.set(rotation.rotates(held).timestamp() if held and changes else math.nan)

    def _serve(self, found: Found) -> None:
        """Write a new pair into the folder, unless no client would accept it now."""
        mistakes = found.mistakes
        if found.state:
            mistakes = state.untimely(found.state.current, now=self.now())
        self._say_refused(found.place, mistakes)
        if found.state and not mistakes and found.state.current != self._served:
            authority.write(found.state.current, self.folder)
            self._served = found.state.current
            self.changed()
            shown = certificate.first(self._served.cert_pem)
            self.log.info(
                "certificates.served",
                secret=str(found.place),
                serial=f"{shown.serial_number:x}",
                expires=shown.not_valid_after_utc,
            )

    def _say_refused(self, place: Place, mistakes: tuple[Mistake, ...]) -> None:
        if mistakes:
            self._awaited = "; ".join(map(str, mistakes))
        self._say("certificates.refused", mistakes, secret=str(place), mistakes=mistakes)

    def _say_published(self, look: Look) -> None:
        held = look.found.state
        problems = dict(bundle.problems(look.configurations, held.bundle)) if held else {}
        self._say("certificates.unpublished", problems, name=self.configuration, problems=problems)

    def _say(self, event: str, about: object, **fields: object) -> None:
        """Say what is wrong, but the same only once; nothing, once it is right."""
        if about and self._said.get(event) != about:
            self.log.error(event, **fields)
        self._said[event] = about
