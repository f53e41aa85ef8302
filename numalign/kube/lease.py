"""
Leader election: which one of several replicas does what only one may do.

The replicas agree through a Lease: the one that keeps renewing it leads, and the others wait until it has not
changed for so long that its holder can no longer consider itself the leader. This is the election of
client-go (k8s.io/client-go/tools/leaderelection), with one more guarantee: `leading` is checked before every
action, and is False unless leadership is certain. A leader that cannot renew, or that was frozen without
noticing, does not lead. Only the times that people read in the Lease come from the wall clock.

Nor does a new leader act before the actions of the last one are over: see `Handover`.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Gauge

from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, NotFound, Unreachable
from numalign.kube.kinds import Object
from numalign.runtime.clock import Sleep, utc_now
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

LEASE_DURATION_SECONDS = 15
"""How long a Lease has to be unchanged before another may take it."""

RENEW_DEADLINE_SECONDS = 10
"""How long a renewal guarantees leadership; the rest is for clocks that run at different speeds."""

RETRY_PERIOD_SECONDS = 2.0
JITTER = 1.2
"""How much longer than `RETRY_PERIOD_SECONDS` the others may wait, as a share of it."""

ATTEMPT_SECONDS = 5
"""How long the API server may take to answer; the guarantee leaves time for another try."""

RELEASE_SECONDS = 2
"""How long the end of the process may be delayed, so that others need not wait."""

LONGEST_LEASE_SECONDS = 300
"""The limit of a Lease's duration; a longer one counts as this."""

API_VERSION, KIND = "coordination.k8s.io/v1", "Lease"

_NEVER = float("-inf")
_UNSTAMPED = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_TRANSITIONS = 2**31 - 1


async def _at_once() -> None:
    """Wait for nothing."""


@dataclass(frozen=True, slots=True)
class Handover:
    """How long a new leader waits before it acts, in seconds.

    It counts from when it took the Lease: `released` after a leader that released it, so that the events of
    its actions arrive; `lost` after any other, which may have started actions that are not over yet. A leader
    that releases the Lease first waits for `over`, which must end.
    """

    released: float = 0.0
    lost: float = 0.0
    over: Callable[[], Awaitable[None]] = _at_once


NO_HANDOVER = Handover()
"""The actions of a leader end at once, or it does no harm if two do them."""


class Leases(Protocol):
    """The part of an `Api` that is used; the real one raises `ClusterError`."""

    async def get(self, path: str, *, what: str) -> object:
        """Return the object at a path."""

    async def create(self, path: str, body: object, *, what: str) -> object:
        """Create an object in the collection at a path."""

    async def replace(self, path: str, body: object, *, what: str) -> object:
        """Replace the object with the same `resourceVersion`."""


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """A Lease as read. Invalid fields count as absent."""

    metadata: Object
    spec: Object

    @property
    def holder(self) -> str:
        """The holder; empty if there is none."""
        return Part(self.spec)["holderIdentity"].text()

    @property
    def acquired(self) -> str | None:
        """When its holder acquired it, as written."""
        return Part(self.spec)["acquireTime"].text() or None

    @property
    def transitions(self) -> int:
        """The number of its changes of holder."""
        return max(Part(self.spec)["leaseTransitions"].integer() or 0, 0)

    @property
    def seconds(self) -> float:
        """How long it is valid without a renewal."""
        duration = Part(self.spec)["leaseDurationSeconds"].integer() or LEASE_DURATION_SECONDS
        return min(duration, LONGEST_LEASE_SECONDS)

    @property
    def released(self) -> bool:
        """Whether its last holder released it, as client-go writes that; a removed holder did not."""
        return not self.holder and self.seconds == 1


@dataclass(frozen=True, slots=True)
class _Observation:
    """A Lease (None if it was deleted), and when it was first seen in this state."""

    record: LeaderElectionRecord | None
    at: float

    def still(self, record: LeaderElectionRecord | None) -> bool:
        now, before = record and record.spec, self.record and self.record.spec
        return now == before


class LeaderElector:
    """One candidate. `leading` is whether it leads at this moment, `acts_for` how long it may act.

    The Lease is `name` in `namespace`. Candidates may have the same `identity`: the Lease contains `identity`
    with random letters from `chance` (`self.identity`), because a restarted process must not mistake the
    leadership of its predecessor, which may still run, for its own. A request is given up if the API server
    does not answer `within` its limit.
    """

    def __init__(  # noqa: PLR0913  a place, a name, and what every part of a process is given
        self,
        api: Leases,
        *,
        namespace: str,
        name: str,
        identity: str,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        within: float = ATTEMPT_SECONDS,
        handover: Handover = NO_HANDOVER,
    ) -> None:
        self.identity = f"{identity}_{int(chance() * 16**8):08x}"
        self._api = api
        self._collection = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._name = {"name": name, "namespace": namespace}
        self._what = f"lease {namespace}/{name}"
        self._log = log.bound(lease=f"{namespace}/{name}", identity=self.identity)
        self._clock, self._now, self._sleep, self._chance = clock, now, sleep, chance
        self._within = within
        self._handover = handover
        self._leads_until = self._acts_from = _NEVER
        self._stamped = _UNSTAMPED
        self._observed: _Observation | None = None
        self._logged_leading = False
        self._logged_failure: type[Exception] | None = None
        gauge = Gauge(f"{PREFIX}leader", "1 while this replica leads, else 0.", registry=registry)
        gauge.set_function(lambda: float(self.leading))

    @property
    def leading(self) -> bool:
        """Whether no other can lead now; check it before every action, as it may end at any moment."""
        return self._clock() < self._leads_until

    def acts_for(self) -> float:
        """Return for how many more seconds no other can act, guaranteed; 0 without a guarantee.

        It is also 0 while a predecessor's actions may not be over. Every action must end in this time.
        """
        now = self._clock()
        return max(0.0, self._leads_until - now) if now >= self._acts_from else 0.0

    async def run(self) -> None:
        """Try to lead, and to keep leading; never returns. Releases the Lease when cancelled."""
        try:
            while True:
                await self._try_once()
                waiting = 0.0 if self.leading else JITTER * self._chance()
                await self._sleep(RETRY_PERIOD_SECONDS * (1 + waiting))
        finally:
            await self._step_down()

    async def _try_once(self) -> None:
        try:
            async with asyncio.timeout(self._within):
                await self._try_acquire_or_renew()
        except (ClusterError, TimeoutError) as error:
            self._log_failure(error)
        else:
            self._logged_failure = None
        self._log_leading()

    async def _try_acquire_or_renew(self) -> None:
        """Read the Lease, and write it if that is allowed; raise `ClusterError`."""
        record = await self._read()
        if record is not None and record.holder != self.identity:
            self._leads_until = _NEVER
        self._observe(record)
        if not self._can_acquire(record):
            return
        # The guarantee counts from here: any other candidate waits from when it sees this renewal.
        began, waits = self._clock(), self._waits(record)
        if await self._written(record):
            self._leads_until = began + RENEW_DEADLINE_SECONDS
            self._acts_from = max(self._acts_from, self._clock() + waits)
        elif record is None:
            self._leads_until = _NEVER

    async def _read(self) -> LeaderElectionRecord | None:
        """Return the Lease; None if it does not exist."""
        try:
            lease = await self._api.get(self._path, what=self._what)
        except NotFound:
            return None
        metadata, spec = Part(lease)["metadata"].value, Part(lease)["spec"].value
        if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
            raise Unreachable(f"the API server's answer is invalid: {self._what} has no resourceVersion")
        return LeaderElectionRecord(metadata, spec if isinstance(spec, dict) else {})

    def _observe(self, record: LeaderElectionRecord | None) -> None:
        """Note since when the Lease is unchanged, by the local clock, whatever times it contains."""
        met = self._observed or record or self._wrote
        if met and not (self._observed and self._observed.still(record)):
            self._observed = _Observation(record, self._clock())

    def _can_acquire(self, record: LeaderElectionRecord | None) -> bool:
        """Return whether no other can lead.

        A deleted Lease, or one without its holder, may still count for that holder. If none was ever seen,
        there is no need to wait: a new cluster has none.
        """
        if self._observed is None or self.leading:
            return True
        waited = self._clock() - self._observed.at
        if record is None:
            return waited >= LEASE_DURATION_SECONDS
        # Longer than its holder may rely on it.
        patience = max(record.seconds, LEASE_DURATION_SECONDS)
        return record.holder == self.identity or record.released or waited >= patience

    def _waits(self, record: LeaderElectionRecord | None) -> float:
        """Return how long to wait for the actions of the last leader; not for its own."""
        if self.leading or (record or self._observed) is None:
            return 0.0
        if record and record.holder == self.identity:
            return 0.0
        return self._handover.released if record and record.released else self._handover.lost

    async def _written(self, record: LeaderElectionRecord | None) -> bool:
        """Return whether the Lease is held now; if not, another was faster, and it is read again."""
        body = self._claim(record)
        try:
            if record is None:
                await self._api.create(self._collection, body, what=self._what)
            else:
                await self._replace(body)
        except Conflict:
            return False
        return True

    async def _replace(self, body: Object) -> None:
        try:
            await self._api.replace(self._path, body, what=self._what)
        except NotFound as error:
            raise Conflict(str(error)) from error

    def _claim(self, record: LeaderElectionRecord | None) -> Object:
        """Return the Lease with this holder; its other fields stay."""
        time = self._stamp()
        if record is None:
            return self._body(self._name, {}, acquireTime=time, renewTime=time, leaseTransitions=0)
        ours = record.holder == self.identity
        return self._body(
            record.metadata,
            record.spec,
            acquireTime=(record.acquired if ours else None) or time,
            renewTime=time,
            leaseTransitions=min(record.transitions + (not ours), _MOST_TRANSITIONS),
        )

    def _body(self, metadata: Object, spec: Object, **fields: object) -> Object:
        held = {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE_DURATION_SECONDS}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec | held | fields}

    def _stamp(self) -> str:
        """Return the current time, never the same twice: others see a renewal only if something changes."""
        self._stamped = max(self._now(), self._stamped + _MICROSECOND)
        return self._stamped.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def _wrote(self) -> bool:
        """Whether this candidate may ever have held the Lease."""
        return self._stamped > _UNSTAMPED

    async def _step_down(self) -> None:
        """Release the Lease at once, as far as possible in the time there is."""
        self._leads_until = _NEVER
        self._log_leading(reason="the process ends")
        await self._handover.over()
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._release()

    async def _release(self) -> None:
        record = await self._read() if self._wrote else None
        if record is None or record.holder != self.identity:
            return
        time = self._stamp()
        released = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": time, "renewTime": time}
        await self._replace(self._body(record.metadata, record.spec, **released))

    def _log_leading(self, *, reason: str = "it was not renewed in time") -> None:
        leading, before = self.leading, self._logged_leading
        self._logged_leading = leading
        if leading and not before:
            self._log.info("lease.acquired", acts_in_seconds=max(0.0, self._acts_from - self._clock()))
        if before and not leading:
            holder = self._observed.record.holder if self._observed and self._observed.record else None
            self._log.info("lease.lost", holder=holder, reason=reason)

    def _log_failure(self, error: Exception) -> None:
        """Log a failure once, until it is over or another occurs."""
        if type(error) is not self._logged_failure:
            reason = str(error) or f"the API server did not answer within {self._within:g} s"
            self._log.warning("lease.failed", error=reason)
        self._logged_failure = type(error)
