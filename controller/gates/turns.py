"""
Turns of namespaces: what each one holds for pods that no scheduler has bound yet.

A pin holds zones because a scheduler is expected to bind the pod in a moment. Whether one will is up to the
pod's owner: its scheduler may not run, or its volume may not exist. So what a namespace holds without using
it counts when it is decided whose pod is next, and a namespace whose pins are not bound may hold little more.
A namespace whose pins are bound is never limited.
"""

import math
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

ABANDONED_SECONDS = 2.0
"""Seconds after which a pod that leaves before it was bound counts as one that no scheduler bound."""

REMEMBERED_SECONDS = 60.0
"""How long zones that were held for nothing count for the order of namespaces."""

PAUSE_SECONDS = 60.0
"""How long a namespace gives way after a pin of it was not bound in time."""

FORGIVEN_SECONDS = 600.0
"""How long the pins of a namespace are limited after the last one that was not bound."""

PROVEN = 128
"""How many pins at once end that limit; each pin that is bound allows one more."""


@dataclass(frozen=True, slots=True)
class _HeldPin:
    namespace: str
    number: int
    since: float


@dataclass(slots=True)
class _Account:
    """One namespace. `progress` has when pins were bound, by number; both grow."""

    held: int = 0
    abandoned: deque[float] = field(default_factory=lambda: deque(maxlen=PROVEN))
    progress: list[tuple[int, float]] = field(default_factory=list)
    most: float = math.inf
    limited_until: float = -math.inf
    paused_until: float = -math.inf

    def limit(self, now: float) -> None:
        """Hold zones for one pod at a time, until pins are bound."""
        self.most, self.limited_until = 1.0, now + FORGIVEN_SECONDS

    def unlimited(self) -> None:
        """Hold zones for any number of pods."""
        self.most, self.limited_until = math.inf, -math.inf


@dataclass(eq=False, slots=True)
class NamespaceTurns:
    """The pins that no scheduler has bound, by pod and by namespace; `clock` is in seconds."""

    clock: Callable[[], float]
    _pins: dict[str, _HeldPin] = field(init=False, default_factory=dict)
    _accounts: dict[str, _Account] = field(init=False, default_factory=dict)
    _numbers: Iterator[int] = field(init=False, default_factory=count)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the UIDs of pods that hold zones."""
        return iter(tuple(self._pins))

    def __len__(self) -> int:
        return len(self._pins)

    def hold(self, uid: str, namespace: str, *, age: float = 0.0) -> None:
        """Note that zones are held for a pod, since `age` seconds."""
        if uid not in self._pins:
            self._pins[uid] = _HeldPin(namespace, next(self._numbers), self.clock() - age)
            self._accounts.setdefault(namespace, _Account()).held += 1

    def cancel(self, uid: str) -> None:
        """Note that a pod was not pinned after all."""
        self._end(uid)

    def bound(self, uid: str) -> None:
        """Note that a scheduler bound a pod."""
        if pin := self._end(uid):
            account = self._accounts[pin.namespace]
            # An earlier pin that is bound later says more, about more pins.
            while account.progress and account.progress[-1][0] > pin.number:
                account.progress.pop()
            account.progress.append((pin.number, self.clock()))
            account.most += 1
            if account.most > PROVEN:
                account.unlimited()

    def left(self, uid: str) -> None:
        """Note that a pod ended or was deleted before it was bound."""
        if pin := self._end(uid):
            account, now = self._accounts[pin.namespace], self.clock()
            account.abandoned.append(now)
            if now - pin.since >= ABANDONED_SECONDS:
                account.limit(now)

    def lapsed(self, uid: str) -> None:
        """Note that a pod was not bound in time."""
        if pin := self._end(uid):
            account, now = self._accounts[pin.namespace], self.clock()
            account.abandoned.append(now)
            account.limit(now)
            account.paused_until = now + PAUSE_SECONDS

    def _end(self, uid: str) -> _HeldPin | None:
        if pin := self._pins.pop(uid, None):
            self._accounts[pin.namespace].held -= 1
        return pin

    def unused(self, namespace: str) -> int:
        """Return for how many pods a namespace holds zones, or held them for nothing a short time ago."""
        account = self._accounts.get(namespace)
        if account is None:
            return 0
        since = self.clock() - REMEMBERED_SECONDS
        while account.abandoned and account.abandoned[0] < since:
            account.abandoned.popleft()
        return account.held + len(account.abandoned)

    def why_not(self, namespace: str, *, contested: bool) -> str:
        """Return why a namespace may hold no more; `contested` if others wait for room."""
        account = self._accounts.get(namespace)
        if account and account.held >= account.most:
            return "earlier pods of its namespace were pinned and not bound, so they are placed one by one"
        if account and contested and self.clock() < account.paused_until:
            return "earlier pods of its namespace were pinned and not bound, so other namespaces go first"
        return ""

    def stalled(self, uid: str) -> float:
        """Return for how many seconds neither a pod nor one of its namespace pinned before it was bound."""
        pin = self._pins.get(uid)
        if pin is None:
            return 0.0
        progress = self._accounts[pin.namespace].progress
        before = bisect_left(progress, (pin.number, 0.0))
        return self.clock() - max(pin.since, progress[before - 1][1] if before else -math.inf)

    def forget(self) -> None:
        """Forget namespaces about which nothing is left to know."""
        now, numbers = self.clock(), defaultdict[str, list[int]](list)
        for pin in self._pins.values():
            numbers[pin.namespace].append(pin.number)
        for namespace, account in [*self._accounts.items()]:
            if now >= account.limited_until:
                account.unlimited()
            if not (self.unused(namespace) or account.most < math.inf):
                del self._accounts[namespace]
            else:
                # For each pin, only the last one before it that was bound counts.
                ends = (bisect_left(account.progress, (number, 0.0)) for number in numbers[namespace])
                account.progress = [account.progress[end - 1] for end in dict.fromkeys(ends) if end]
