"""
Keeping the class label of every node true.

Schedulers and autoscalers know nodes by their labels alone, so what the rules find out about a machine has to
stand on its Node. Others write labels too, and every write wakes everybody who watches nodes: so only what is
wrong is written, one key at a time, by one replica, slowly, and never in a race with somebody who disagrees.

The label of a node that is ill is that of its class in health: a device plugin that starts again, or a device
that breaks, changes nothing, until the loss has lasted for so long that it is taken for real.

A label is taken away only when a topology is gone for good. Exporters are restarted and their objects written
anew, and a kubelet that starts again evicts pods whose required affinity its labels no longer satisfy
(kubernetes/kubernetes#124586): a label that comes and goes would take running work with it.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.client import ClusterError, Forbidden, NotFound, Patch
from numalign.model.intent import CLASS_LABEL
from numalign.model.resources import Resources, render
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

GRACE_SECONDS = 300
"""How long a topology has to be missing before it counts as gone for good."""

PER_SECOND = 20
"""Patches; each one is an event for everybody who watches nodes."""

TURN_SECONDS = 1.0
UNSEEN_SECONDS = 30
"""How long a write may take to come back as an event before it is repeated."""

PATCH_SECONDS = 5
"""How long the API server may take: less than others wait before they lead in our place."""

STALE_SECONDS = 120
"""What was confirmed longer ago is no ground to write, nor to count a topology as missing."""

TOLERATED = 3
"""Failures in a row that may be the nodes' own matter."""

FROZEN_SECONDS = 30
"""A process that did not look for so long was not following."""

_FIRST_WAIT, _LONGEST_WAIT = 15.0, 1800.0
_LONGEST_PAUSE = 10.0
_QUIET_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Change:
    """What a node's class label is, and what it should be; None is no label."""

    node: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known at a moment: the class label of every Node, and the class of those with a topology.

    Of those that are ill, `ill` has what they lack, where somebody asks for it.
    """

    labels: Mapping[str, str | None]
    classes: Mapping[str, str]
    ill: Mapping[str, Resources] = field(default_factory=dict)


class Patches(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def patch(self, path: str, body: object, *, how: Patch, what: str) -> object:
        """Change the object at a path."""


def changes(
    labels: Mapping[str, str | None],
    classes: Mapping[str, str],
    *,
    gone: AbstractSet[str] = frozenset(),
) -> tuple[Change, ...]:
    """What has to change, by node, for every label to be true.

    `labels` has every Node there is, None for one without the label, and `classes` every node whose topology
    is known. The label of another node is left as it is, unless its topology is `gone` for good.
    """
    return tuple(_changes(labels, classes, gone))


def _changes(
    labels: Mapping[str, str | None], classes: Mapping[str, str], gone: AbstractSet[str]
) -> Iterator[Change]:
    for node, before in sorted(labels.items(), key=lambda item: item[0]):
        after = classes.get(node, None if node in gone else before)
        if after != before:
            yield Change(node, before, after)


def planned(moment: Moment) -> tuple[Change, ...]:
    """What would change if nothing else happened, the labels that would only go after a while included."""
    return changes(moment.labels, moment.classes, gone=_missing(moment))


def table(changes: Sequence[Change], *, labelled: int) -> str:
    """Changes for people; of so many `labelled` nodes, if there are none."""
    if not changes:
        are = "node is" if labelled == 1 else "nodes are"
        return f"nothing would change ({labelled} {are} labelled)"
    names = [f"{change.node}:" for change in changes]
    befores = [change.before or "no label" for change in changes]
    widths = max(map(len, names)), max(map(len, befores))
    return "\n".join(
        f"{name.ljust(widths[0])} {before.ljust(widths[1])} -> {_after(change)}"
        for name, before, change in zip(names, befores, changes, strict=True)
    )


def rehearsal(moment: Moment) -> str:
    """What `--dry-run` prints."""
    labelled = sum(label is not None for label in moment.labels.values())
    return "\n".join((table(planned(moment), labelled=labelled), *_ill(moment)))


def _ill(moment: Moment) -> Iterator[str]:
    """Nodes whose label is not that of what they have today."""
    for node, lacking in sorted(moment.ill.items()):
        amounts = ", ".join(f"{render(name, amount)} {name}" for name, amount in sorted(lacking.items()))
        yield f"{node}: ill, lacks {amounts}; in health its class is {moment.classes[node]}"


def _after(change: Change) -> str:
    return change.after or f"no label, after {GRACE_SECONDS} s without topology"


def _missing(moment: Moment) -> frozenset[str]:
    """Nodes with a label that nothing supports."""
    classes = moment.classes
    return frozenset(
        node for node, label in moment.labels.items() if label is not None and node not in classes
    )


class Absences:
    """Since when topologies are missing, and which are gone for good after `grace` seconds.

    It remembers no more than this process has seen: when it is started again, or could not follow for a
    while, each topology has all of the grace again, for it may have been there meanwhile.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[str, float] = {}

    def seen(self, missing: AbstractSet[str], *, now: float) -> None:
        """At this time just these are missing."""
        self._since = {node: self._since.get(node, now) for node in missing}

    def forget(self) -> None:
        """Nobody knows what happened until now."""
        self._since = {}

    def gone(self, *, now: float) -> frozenset[str]:
        """Those that are gone for good."""
        return frozenset(node for node, since in self._since.items() if now - since >= self._grace)


@dataclass(frozen=True, slots=True)
class _Try:
    """The last write to a node: what it should have become, when, how often in vain, and how long to wait.

    `done` is whether the API server took it, `shown` whether the label has been seen to be so.
    """

    after: str | None
    at: float
    vain: int
    wait: float
    done: bool = True
    shown: bool = False

    def holds_back(self, change: Change, *, now: float) -> bool:
        """Whether it is too early to write the same again."""
        return change.after == self.after and now < self.at + self.wait

    def seen(self) -> "_Try":
        """It worked; if it is undone, it may be done again at once, but later and later each time."""
        return self if self.shown else replace(self, wait=_patience(self.vain), done=True, shown=True)

    def over(self, *, now: float) -> bool:
        """Whether what was written has stood for so long that nobody contests it."""
        return self.shown and now >= self.at + self.wait + _QUIET_SECONDS


def _patience(vain: int) -> float:
    """Seconds before the next write, after so many in vain."""
    return min(_FIRST_WAIT * 2.0 ** min(vain - 1, 16), _LONGEST_WAIT) if vain else 0.0


class Labeller:
    """Writes labels while `leading` says yes.

    `moment` gives what is known now, and `age` how many seconds ago that was last confirmed. In any second at
    most `per_second` patches begin. A topology is gone for good after `grace` seconds.
    """

    def __init__(  # noqa: PLR0913  who knows, who writes, and what every part of a process is given
        self,
        api: Patches,
        *,
        moment: Callable[[], Moment | None],
        age: Callable[[], float],
        leading: Callable[[], bool],
        log: Log,
        registry: CollectorRegistry,
        per_second: int = PER_SECOND,
        grace: float = GRACE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api, self._moment, self._age, self._leading = api, moment, age, leading
        self._log, self._per_second = log, per_second
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._absences = Absences(grace)
        self._seen: Moment | None = None
        self._gone: frozenset[str] = frozenset()
        self._looked = clock()
        self._plan: tuple[Change, ...] = ()
        self._tries: dict[str, _Try] = {}
        self._failures = 0
        self._paused_until = self._looked
        self._said_forbidden = False
        self._writes = Counter(
            f"{PREFIX}class_writes", "Class labels written, by how that ended.", ["result"], registry=registry
        )
        for result in _RESULTS:
            self._writes.labels(result)

    async def run(self) -> None:
        """Keep labels true; never returns."""
        while True:
            await self._turn()
            # With at most so many patches in a turn, this pause is what bounds them in any second.
            await self._sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        """Look once, and write what a second allows; a plan is too old after that."""
        began = self._clock()
        moment = self._moment()
        if moment is None or not self._follows(now=began):
            return
        self._look(moment, now=began)
        if began < self._paused_until:
            return
        for change in self._due(now=began)[: self._per_second]:
            late = self._clock() >= began + TURN_SECONDS
            if late or not self._leading() or not await self._write(change):
                return

    def _follows(self, *, now: float) -> bool:
        """Whether what is known can be trusted; each absence counts anew if it could not."""
        stale, frozen = self._age() > STALE_SECONDS, now - self._looked > FROZEN_SECONDS
        self._looked = now
        if stale or frozen:
            self._absences.forget()
            self._seen, self._gone = None, frozenset()
        return not stale

    def _look(self, moment: Moment, *, now: float) -> None:
        """Plan anew if anything has changed."""
        new = moment is not self._seen
        if new:
            self._seen = moment
            self._absences.seen(_missing(moment), now=now)
        gone = self._absences.gone(now=now)
        if new or gone != self._gone:
            self._gone = gone
            self._plan = changes(moment.labels, moment.classes, gone=gone)
            self._tries = dict(self._remembered(moment.labels, now=now))

    def _remembered(self, labels: Mapping[str, str | None], *, now: float) -> Iterator[tuple[str, _Try]]:
        """The writes that still matter, with what the labels show of them."""
        for node, last in self._tries.items():
            if node not in labels:
                continue
            known = last.seen() if labels[node] == last.after else last
            if not known.over(now=now):
                yield node, known

    def _due(self, *, now: float) -> list[Change]:
        """What may be written now; nodes that refuse come last, so that they hold up no others."""
        due = [change for change in self._plan if not self._held_back(change, now=now)]
        return sorted(due, key=self._vain)

    def _held_back(self, change: Change, *, now: float) -> bool:
        last = self._tries.get(change.node)
        return last is not None and last.holds_back(change, now=now)

    def _vain(self, change: Change) -> int:
        last = self._tries.get(change.node)
        return last.vain if last else 0

    async def _write(self, change: Change) -> bool:
        """Whether to go on after this one."""
        path, body = f"/api/v1/nodes/{quote(change.node)}", _body(change)
        try:
            async with asyncio.timeout(PATCH_SECONDS):
                await self._api.patch(path, body, how=Patch.MERGE, what=f"node {change.node}")
        except NotFound:
            self._wrote(change, "gone")
        except (ClusterError, TimeoutError) as error:
            self._failed(change, error)
            return self._failures < TOLERATED
        else:
            self._tell_written(change)
            self._wrote(change, "written")
        self._failures, self._said_forbidden = 0, False
        return True

    def _wrote(self, change: Change, result: str) -> None:
        vain = self._undone(change)
        wait = max(UNSEEN_SECONDS, _patience(vain))
        self._tries[change.node] = _Try(change.after, self._clock(), vain, wait)
        self._writes.labels(result).inc()

    def _undone(self, change: Change) -> int:
        """How often in a row somebody undid this very change."""
        last = self._tries.get(change.node)
        return last.vain + 1 if last and last.done and last.after == change.after else 0

    def _tell_written(self, change: Change) -> None:
        self._log.info("node.labelled", node=change.node, before=change.before, after=change.after)
        undone = self._undone(change)
        if undone:
            self._log.warning("class.contested", node=change.node, found=change.before, undone=undone)

    def _failed(self, change: Change, error: Exception) -> None:
        """Wait with this node; after several in a row with all of them, for it may be the API server."""
        now, last = self._clock(), self._tries.get(change.node)
        vain = last.vain + 1 if last and last.after == change.after else 1
        self._tries[change.node] = _Try(change.after, now, vain, _patience(vain), done=False)
        self._failures += 1
        if self._failures >= TOLERATED:
            pause = min(2.0 ** min(self._failures - TOLERATED, 16), _LONGEST_PAUSE)
            self._paused_until = now + pause * (1 + self._chance() / 2)
        self._tell_failed(change, error)

    def _tell_failed(self, change: Change, error: Exception) -> None:
        reason = str(error) or f"the API server did not answer within {PATCH_SECONDS} s"
        if isinstance(error, Forbidden):
            self._writes.labels("forbidden").inc()
            if not self._said_forbidden:
                self._log.error("class.forbidden", node=change.node, error=reason)
            self._said_forbidden = True
            return
        self._writes.labels("failed").inc()
        self._log.warning("class.failed", node=change.node, error=reason)


def _body(change: Change) -> object:
    return {"metadata": {"labels": {CLASS_LABEL: change.after}}}


_RESULTS = ("written", "gone", "forbidden", "failed")
