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
from typing import TypeVar

from certs import bundle, rotation, secret
from certs.bundle import WebhookConfiguration
from certs.rotation import RotationPlan, Transition
from certs.secret import PairState, SecretRef, SharedSecret
from numalign.kube.client import Api
from numalign.kube.errors import Conflict
from numalign.runtime.clock import Clock, utc_now

ATTEMPTS = 5

R = TypeVar("R")


async def retry_conflicts(action: Callable[[], Awaitable[R]]) -> R:
    """Return the result of an action, retried after each `Conflict`; raise that of the last attempt."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await action()
        except Conflict:
            continue
    return await action()


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
        return await retry_conflicts(lambda: self._reconcile(transitions))

    async def observe(self) -> RotationState:
        """Read everything and change nothing, but remember it as well; raise `ClusterError`."""
        configurations, shared = await self._read()
        if shared.state:
            self._remember(shared, configurations)
        return RotationState(shared, configurations)

    async def _reconcile(self, transitions: list[Transition]) -> RotationState:
        configurations, shared = await self._read()
        transition = self._due(shared, configurations)
        if transition:
            shared = await secret.write(self.api, shared, transition.state)
            transitions.append(transition)
        if shared.state:
            configurations = await bundle.publish(self.api, configurations, bundle=shared.state.bundle)
            self._remember(shared, configurations)
        return RotationState(shared, configurations, tuple(transitions))

    async def _read(self) -> tuple[tuple[WebhookConfiguration, ...], SharedSecret]:
        configurations = await bundle.read(self.api, self.configuration)
        return configurations, await secret.read_for(
            self.api, self.ref, names=self.plan.names, now=self.now()
        )

    def _due(self, shared: SharedSecret, configurations: Sequence[WebhookConfiguration]) -> Transition | None:
        if shared.lost:
            return rotation.restore(self._remembered, plan=self.plan, now=self.now())
        if shared.state is None or not shared.ours:
            return None
        known = self._trusted == (shared.state, bundle.versions(configurations))
        published = self.clock() - self._since if known else None
        return rotation.due(shared.state, plan=self.plan, now=self.now(), published=published)

    def _remember(self, shared: SharedSecret, configurations: Sequence[WebhookConfiguration]) -> None:
        state = shared.state
        self._remembered = state if shared.ours else None
        if state is None or not bundle.trusted(configurations, state.bundle):
            self._trusted = None
        elif self._trusted != (state, bundle.versions(configurations)):
            self._trusted, self._since = (state, bundle.versions(configurations)), self.clock()
