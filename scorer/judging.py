"""
What each node says to a pod at the moment, and why.

To filter and to rank thousands of nodes it is enough to know who takes the pod and how well, and for that all
are asked at once. Whoever wants to know where on a node the pod would come to, and for whom it would have to
wait, asks that node by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from numalign.cache.arrays import Bools, Ints
from numalign.cache.board import Answer
from numalign.cache.ranking import Single
from numalign.cache.scheduler_cache import ADMITTED, STRANGE, Said, met, sorted_by
from numalign.ledger.model import Prediction
from scorer import reasons
from scorer.extender_protocol import Filtered
from scorer.scheduler_state import PendingPod, SchedulerState

_No = tuple[bool, str]
"""Whether a refusal is permanent, and its reason."""


class _Word(NamedTuple):
    """What nodes say that do not take the pod, and whether they have `answered` at all."""

    permanent: bool
    reason: str
    answered: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a node says; `offer` is None if its topology is not known, or it has not `answered`."""

    name: str
    offer: Prediction | None
    fits: bool
    permanent: bool = False
    reason: str = ""
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Poll:
    """What the nodes of a call say to a pod, all asked at once.

    Of a node that was asked `apart`, by its place, that answer counts; `unknown` is what all say whose
    topology is not known, and one that was not answered fits if these do. `no` are refusals by their numbers,
    to which others are added as they are met.
    """

    names: Sequence[str]
    said: Said
    apart: Mapping[int, Judgement]
    unknown: Judgement
    no: dict[int, _Word] = field(default_factory=dict)

    @property
    def singles(self) -> Mapping[int, Single]:
        """The nodes that were asked apart, as whoever ranks them wants to have them."""
        offers = ((place, each.offer) for place, each in self.apart.items())
        return {place: Single(offer.node, offer.verdict) for place, offer in offers if offer}

    def filtered(self) -> Filtered:
        """Which of the nodes take the pod, and why the others do not, in the order of the call."""
        numbers = self.said.numbers()
        there = met(numbers)
        self._learn(there, numbers)
        # What is said apart has numbers that nobody else has.
        others = {STRANGE: self.unknown}
        for number, (place, judged) in enumerate(self.apart.items(), start=max([ADMITTED, *there]) + 1):
            numbers[place], others[number] = number, judged
        words = {number: self.no[number] for number in there if number in self.no}
        no = {
            number: (word.permanent, word.reason)
            for number, word in words.items()
            if word.answered or not self.unknown.fits
        }
        no |= {number: (each.permanent, each.reason) for number, each in others.items() if not each.fits}
        return _parted(self.names, numbers, no)

    @property
    def answered(self) -> bool:
        """Whether all nodes have answered, as far as they were heard (`filtered`)."""
        silent = {number for number, word in self.no.items() if not word.answered}
        here = silent.intersection(met(self.said.numbers())) if silent else silent
        return not here and all(each.answered for each in self.apart.values())

    def _learn(self, there: Iterable[int], numbers: Ints) -> None:
        """Have put into words what was not met before."""
        for number in {*there} - self.no.keys() - {ADMITTED, STRANGE}:
            verdict = self.said.verdict(numbers.tolist().index(number))
            self.no[number] = _Word(verdict.permanent, reasons.reason(verdict), verdict.answered)


class Judge:
    """Asks nodes. Pods that must be aligned fit on an unknown node only if those `may-fit`."""

    def __init__(
        self,
        register: SchedulerState,
        *,
        unknown: Literal["cannot-fit", "may-fit"],
        clock: Callable[[], float],
    ) -> None:
        self._register = register
        self._unknown = unknown
        self._clock = clock
        self._no: WeakKeyDictionary[Answer, dict[int, _Word]] = WeakKeyDictionary()

    def asking(self, names: Sequence[str], subject: PendingPod) -> Iterator[None]:
        """Find out what takes long to say, step by step, before it is asked by `poll`."""
        return self._register.cache.asking(names, subject.question, now=self._clock())

    def ask(self, names: Iterable[str], subject: PendingPod) -> list[Judgement]:
        """What each of these nodes says, in their order."""
        return [self._judged(name, subject) for name in names]

    def poll(self, names: Sequence[str], subject: PendingPod) -> Poll:
        """Who of these nodes takes the pod, and how well."""
        said = self._register.cache.ask(names, subject.question, now=self._clock())
        no = self._no.setdefault(said.answer, {})
        return Poll(names, said, self._own(names, subject), self._of_unknown("", subject), no)

    def _own(self, names: Sequence[str], subject: PendingPod) -> Mapping[int, Judgement]:
        # What was promised to this very pod stands in the way of others only.
        own = self._register.reservations.node_of(subject.uid)
        return {names.index(own): self._judged(own, subject)} if own and own in names else {}

    def _judged(self, name: str, subject: PendingPod) -> Judgement:
        # A promise that was made to this very pod stands in nobody's way, least of all in its own.
        offer = self._register.predict(name, subject, without=(subject.uid,))
        if offer is None:
            return self._of_unknown(name, subject)
        verdict = offer.verdict
        if verdict.admitted:
            return Judgement(name, offer, fits=True)
        if not verdict.answered:
            fits = self._may_fit(subject)
            return Judgement(name, None, fits=fits, reason=reasons.reason(verdict), answered=False)
        return Judgement(name, offer, fits=False, permanent=verdict.permanent, reason=reasons.reason(verdict))

    def _of_unknown(self, name: str, subject: PendingPod) -> Judgement:
        if self._may_fit(subject):
            return Judgement(name, None, fits=True)
        # Whoever were evicted there, no topology would appear.
        return Judgement(name, None, fits=False, permanent=True, reason=reasons.UNKNOWN)

    def _may_fit(self, subject: PendingPod) -> bool:
        """Whether the pod is let on a node that says nothing."""
        return self._unknown == "may-fit" or not subject.question.intent.binding


_FIT, _FAILED, _UNRESOLVABLE = range(3)


def _parted(names: Sequence[str], numbers: Ints, no: Mapping[int, _No]) -> Filtered:
    """Nodes by the numbers of what they say, some of which mean `no`."""
    kinds = {number: _UNRESOLVABLE if permanent else _FAILED for number, (permanent, _) in no.items()}
    here = sorted_by(numbers, kinds)
    failed, unresolvable = (_refused(names, numbers, here == kind, no) for kind in (_FAILED, _UNRESOLVABLE))
    return Filtered([*compress(names, (here == _FIT).tolist())], failed, unresolvable)


def _refused(names: Sequence[str], numbers: Ints, here: Bools, no: Mapping[int, _No]) -> dict[str, str]:
    """Those here with the reasons that their numbers stand for; mostly there are none."""
    if not here.any():
        return {}
    reasons_of = {number: reason for number, (_, reason) in no.items()}
    refused = compress(names, here.tolist())
    return dict(zip(refused, map(reasons_of.__getitem__, numbers[here].tolist()), strict=True))
