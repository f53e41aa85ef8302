"""
The controller's part in the certificates: create the shared pair, renew it, and let callers trust it.

The leader does what is due. Other replicas only read: they see what the leader sees, so that the next leader
knows how long ago each step was, and the contents of the Secret if it was deleted.
"""

import math
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs import bundle, rotation
from certs.rotation import DAYS, SETTLE_SECONDS, RotationPlan, RotationStep
from certs.rotator import Rotator
from certs.watcher import SecretWatcher
from numalign.runtime.metrics import PREFIX


@dataclass(slots=True)
class Certificates(SecretWatcher):
    """
    Keeps the pair of a Secret and the CA bundle of `configuration` fresh, while `leading` returns True.

    Replicas that serve the pair read it as often: `settle`, the seconds to wait after each step of a
    rotation, has to be several times as long as both intervals together.
    """

    _: KW_ONLY
    configuration: str
    leading: Callable[[], bool]
    registry: CollectorRegistry
    days: int = DAYS
    settle: float = SETTLE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _rotator: Rotator = field(init=False)
    _rotates: Gauge = field(init=False)
    _steps: Counter = field(init=False)

    def __post_init__(self) -> None:
        self._rotator = Rotator(
            self.api,
            ref=self.ref,
            configuration=self.configuration,
            plan=RotationPlan(self.names, self.days, self.settle),
            now=self.now,
            clock=self.clock,
        )
        self._rotates = Gauge(
            f"{PREFIX}certificate_rotation_timestamp_seconds",
            "When rotation of the certificate begins, as a Unix time; NaN if numalign does not rotate it.",
            registry=self.registry,
        )
        self._rotates.set(math.nan)
        self._steps = Counter(
            f"{PREFIX}certificate_rotations",
            "Steps of certificate rotation by this replica.",
            ["step"],
            registry=self.registry,
        )
        for step in RotationStep:
            self._steps.labels(step.value)

    async def _check(self) -> None:
        observation = await (self._rotator.reconcile() if self.leading() else self._rotator.observe())
        for transition in observation.transitions:
            self._steps.labels(transition.step.value).inc()
            self.log.info("certificates.step", step=transition.step.value, secret=str(self.ref))
        shared = observation.secret
        state, mistakes = shared.state, shared.mistakes
        self.ready = self.ready or state is not None
        self._rotates.set(rotation.rotates(state).timestamp() if state and shared.ours else math.nan)
        self._awaited = "; ".join(map(str, mistakes)) or "the leader has not created it yet"
        self._report("certificates.refused", mistakes, secret=str(self.ref), errors=mistakes)
        if self.leading():
            problems = dict(bundle.problems(observation.configurations, state.bundle)) if state else {}
            self._report("certificates.unpublished", problems, name=self.configuration, errors=problems)
