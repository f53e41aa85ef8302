"""
Read everything that replicas share, and do the rotation step that is due.

The leading controller runs this, and so does a rotation by hand. Neither has to know about the other: what
they do depends only on what is stored in the cluster, and the API server lets one of them do it. The order of
reads matters: the webhook configurations are read before the Secret, so that a write to them is rejected if
another process made a step in between.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TypeVar

from certs import bundle, certificate, rotation, secret
from certs.bundle import WebhookConfiguration
from certs.rotation import RotationPlan, Transition
from certs.secret import BadSecret, PairState, SecretRef, SharedSecret
from numalign.kube.client import Api
from numalign.kube.errors import Conflict
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.clock import Clock, Sleep, utc_now

ATTEMPTS = 5

STAGED = "staged: the new certificate will be served when all callers trust its CA as well"
PROMOTED = "promoted: the new certificate is served; callers still trust the old CA as well"
DROPPED = "dropped: callers no longer trust the old CA"

_NO_PAIR = "contains no certificate yet: a running controller creates one"
_FOREIGN = (
    "is not managed by numalign (label app.kubernetes.io/managed-by): rotate it with the tool that created"
    " it, such as cert-manager's `cmctl renew`"
)
_EARLY = "is not valid before {}: check the clocks. If they are right, delete the Secret to create a new pair"

R = TypeVar("R")


async def retry_conflicts(action: Callable[[], Awaitable[R]]) -> R:
    """Return the result of an action, retried after each `Conflict`; raise that of the last attempt."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await action()
        except Conflict:
            continue
    return await action()


class NotRotatable(BadInput):
    """Raised for a Secret that does not exist, is not managed by numalign, or is not valid yet."""


@dataclass(frozen=True, slots=True)
class RotationState:
    """The current Secret and webhook configurations, and the transitions that were made."""

    secret: SharedSecret
    configurations: tuple[WebhookConfiguration, ...]
    transitions: tuple[Transition, ...] = ()


@dataclass(slots=True)
class Rotator:
    """Rotates the pair of one Secret, which callers of a `configuration` trust. `clock` is in seconds."""

    api: Api
    _: KW_ONLY
    ref: SecretRef
    configuration: str
    plan: RotationPlan
    now: Clock = utc_now
    clock: Callable[[], float] = time.monotonic
    _remembered: PairState | None = field(default=None, init=False)
    _trusted: tuple[PairState, tuple[str, ...]] | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    async def reconcile(self) -> RotationState:
        """Read everything, do the step that is due, publish the CA bundle; raise `ClusterError`."""
        transitions: list[Transition] = []

        async def attempt() -> RotationState:
            configurations, shared = await self._read()
            transition = None
            if shared.lost:
                transition = rotation.restore(self._remembered, plan=self.plan, now=self.now())
            elif shared.state and shared.ours:
                known = self._trusted == (shared.state, bundle.versions(configurations))
                published = self.clock() - self._since if known else None
                transition = rotation.due(shared.state, plan=self.plan, now=self.now(), published=published)
            if transition:
                shared = await secret.write(self.api, shared, transition.state)
                transitions.append(transition)
            if shared.state:
                configurations = await bundle.publish(self.api, configurations, bundle=shared.state.bundle)
                self._remember(shared, configurations)
            return RotationState(shared, configurations, tuple(transitions))

        return await retry_conflicts(attempt)

    async def observe(self) -> RotationState:
        """Read everything and change nothing, but remember it as well; raise `ClusterError`."""
        configurations, shared = await self._read()
        if shared.state:
            self._remember(shared, configurations)
        return RotationState(shared, configurations)

    async def _read(self) -> tuple[tuple[WebhookConfiguration, ...], SharedSecret]:
        configurations = await bundle.read(self.api, self.configuration)
        return configurations, await secret.read_for(
            self.api, self.ref, names=self.plan.names, now=self.now()
        )

    def _remember(self, shared: SharedSecret, configurations: Sequence[WebhookConfiguration]) -> None:
        state = shared.state
        self._remembered = state if shared.ours else None
        if state is None or not bundle.trusted(configurations, state.bundle):
            self._trusted = None
        elif self._trusted != (state, bundle.versions(configurations)):
            self._trusted, self._since = (state, bundle.versions(configurations)), self.clock()


# A rotation by hand.


async def begin(api: Api, ref: SecretRef, *, settle: float, now: Clock) -> RotationPlan:
    """
    Stage a pair like the one that is served, unless a rotation is in progress; return the plan to follow.

    Raise `NotRotatable`, `BadSecret`, and `ClusterError`.
    """

    async def attempt() -> RotationPlan:
        shared = await secret.read(api, ref)
        if shared.mistakes:
            raise BadSecret(shared.mistakes)
        if shared.state is None or not shared.ours:
            raise NotRotatable([Mistake(str(ref), _FOREIGN if shared.state else _NO_PAIR)])
        served = certificate.first(shared.state.current.cert_pem)
        since, until = served.not_valid_before_utc, served.not_valid_after_utc
        if now() < since:
            raise NotRotatable([Mistake(str(ref), _EARLY.format(since.isoformat()))])
        plan = RotationPlan(certificate.names(served), max(1, (until - since) // timedelta(days=1)), settle)
        if not shared.state.next and not rotation.is_retiring(shared.state, now=now()):
            await secret.write(api, shared, rotation.staged(shared.state, plan=plan, now=now()))
        return plan

    return await retry_conflicts(attempt)


async def follow(rotator: Rotator, *, every: float, report: Callable[[str], None], sleep: Sleep) -> None:
    """
    Report each completed step, and what the next one is waiting for, until only one authority is left.

    This includes doing what is due, as the controller does, so that the rotation ends even if no controller
    runs. Raise `ClusterError`.
    """
    last = ""
    while last != DROPPED:
        found = await rotator.reconcile()
        state = found.secret.state
        if state is None:
            raise BadSecret(found.secret.mistakes or [Mistake(str(found.secret.ref), _NO_PAIR)])
        retiring = rotation.is_retiring(state, now=rotator.now())
        step = STAGED if state.next else PROMOTED if retiring else DROPPED
        problems = bundle.problems(found.configurations, state.bundle)
        phase = step + "".join(f"\n  waiting: {kind}: {problem}" for kind, problem in problems.items())
        if phase != last:
            report(phase)
            last = phase
        if phase != DROPPED:
            await sleep(every)
