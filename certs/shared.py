"""
One look at all that replicas share, and the step that is due.

The controller that leads looks, and so does whoever rotates by hand. Neither has to know of the other: what
they do is decided by what stands in the cluster alone, and the API server lets one of them do it. The order
of a look matters: the webhook configurations are read before the Secret, so that what is then written into
them can be refused if anybody went on in between.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from certs import bundle, rotation, secret
from certs.bundle import Configuration
from certs.rotation import Move, Plan
from certs.secret import Found, Place
from certs.state import State
from numalign.kube.client import Api, Conflict
from numalign.runtime.clock import Clock, utc_now

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What was found and done: the Secret and the configurations as they are now, and the steps taken."""

    found: Found
    configurations: tuple[Configuration, ...]
    moves: tuple[Move, ...] = ()


@dataclass(slots=True)
class SharedPair:
    """The pair of one Secret, and the configuration whose callers trust it. `clock` counts seconds."""

    api: Api
    _: KW_ONLY
    place: Place
    configuration: str
    plan: Plan
    now: Clock = utc_now
    clock: Callable[[], float] = time.monotonic
    _remembered: State | None = field(default=None, init=False)
    _trusted: tuple[State, tuple[str, ...]] | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    async def look(self) -> Look:
        """Look at everything, do the step that is due, publish the authorities; raises `ClusterError`."""
        moves: list[Move] = []
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._looked(moves)
            except Conflict:
                continue
        return await self._looked(moves)

    async def seen(self) -> Look:
        """Look at everything and change nothing, but remember it as well; raises `ClusterError`."""
        seen = await bundle.look(self.api, self.configuration)
        found = await self._found()
        if found.state:
            self._note(found, seen)
        return Look(found, seen)

    def published(self, held: State, seen: Sequence[Configuration]) -> float | None:
        """For how many seconds the bundle of this very state has been seen to be trusted, if it is."""
        if self._trusted != (held, bundle.versions(seen)):
            return None
        return self.clock() - self._since

    async def _looked(self, moves: list[Move]) -> Look:
        seen = await bundle.look(self.api, self.configuration)
        found = await self._found()
        move = self._move(found, seen)
        if move:
            found = await secret.keep(self.api, found, move.state)
            moves.append(move)
        if found.state is None:
            return Look(found, seen, tuple(moves))
        after = await bundle.publish(self.api, seen, bundle=found.state.bundle)
        self._note(found, after)
        return Look(found, after, tuple(moves))

    async def _found(self) -> Found:
        found = await secret.find(self.api, self.place)
        return secret.judged(found, names=self.plan.names, now=self.now())

    def _move(self, found: Found, seen: Sequence[Configuration]) -> Move | None:
        if found.lost:
            return rotation.again(self._remembered, plan=self.plan, now=self.now())
        if found.state is None or not found.ours:
            return None
        published = self.published(found.state, seen)
        return rotation.due(found.state, plan=self.plan, now=self.now(), published=published)

    def _note(self, found: Found, seen: tuple[Configuration, ...]) -> None:
        held = found.state
        self._remembered = held if found.ours else None
        if held is None or not bundle.trusted(seen, held.bundle):
            self._trusted = None
        elif self._trusted != (held, bundle.versions(seen)):
            self._trusted, self._since = (held, bundle.versions(seen)), self.clock()
