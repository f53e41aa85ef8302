"""
What each node says to a pod at the moment, and why.

The same pod is asked about three times within milliseconds (filter, prioritize, bind), and pods of one
template one after another, while most nodes have not changed. So an answer is kept as long as the standing of
its node is the very one that it was given for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from numalign.rules.ledger import Offer, Standing
from scorer import reasons
from scorer.register import Register, Subject

REMEMBERED = 64
"""Questions per node; more templates than that wait for one node at a time only in a very odd cluster."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a node says; `offer` is None if its topology is not known."""

    name: str
    offer: Offer | None
    fits: bool
    permanent: bool = False
    reason: str = ""


@dataclass(slots=True)
class _Memory:
    """Answers given for one standing, by the number of the question, and by when who asked was created."""

    standing: Standing
    answers: dict[tuple[int, int], Judgement] = field(default_factory=dict)


class Judge:
    """Asks nodes. Pods that must be aligned fit on an unknown node only if those `may-fit`."""

    def __init__(
        self,
        register: Register,
        *,
        unknown: Literal["cannot-fit", "may-fit"],
        clock: Callable[[], float],
    ) -> None:
        self._register = register
        self._unknown = unknown
        self._clock = clock
        self._memories: dict[str, _Memory] = {}

    def ask(self, names: Iterable[str], subject: Subject) -> list[Judgement]:
        """What each of these nodes says, in their order."""
        # What a node says without this very pod is no answer for others that ask the same.
        own = self._register.promises.place_of(subject.uid)
        return [(self._judged if name == own else self._one)(name, subject) for name in names]

    def _one(self, name: str, subject: Subject) -> Judgement:
        standing = self._register.promises.standing(name, now=self._clock())
        if standing is None:
            self._memories.pop(name, None)
            return self._of_unknown(name, subject)
        memory = self._memories.get(name)
        if memory is None or memory.standing is not standing:
            memory = self._memories[name] = _Memory(standing)
        # Only with pods on their way does it matter when a pod was created.
        asked = (subject.number, subject.created if standing.unsettled else 0)
        found = memory.answers.get(asked)
        if found is None:
            found = self._judged(name, subject)
            if len(memory.answers) < REMEMBERED:
                memory.answers[asked] = found
        return found

    def _judged(self, name: str, subject: Subject) -> Judgement:
        # A promise that was made to this very pod stands in nobody's way, least of all in its own.
        offer = self._register.offer(name, subject, beside=(subject.uid,))
        if offer is None:
            return self._of_unknown(name, subject)
        verdict = offer.verdict
        if verdict.admitted:
            return Judgement(name, offer, fits=True)
        return Judgement(name, offer, fits=False, permanent=verdict.permanent, reason=reasons.reason(verdict))

    def _of_unknown(self, name: str, subject: Subject) -> Judgement:
        if self._unknown == "may-fit" or not subject.question.intent.binding:
            return Judgement(name, None, fits=True)
        # Whoever were evicted there, no topology would appear.
        return Judgement(name, None, fits=False, permanent=True, reason=reasons.UNKNOWN)


def by_fit(judged: Iterable[Judgement]) -> tuple[list[str], Mapping[str, str], Mapping[str, str]]:
    """The nodes that fit, and the reasons of those that do not now and of those that never will."""
    fit: list[str] = []
    now: dict[str, str] = {}
    ever: dict[str, str] = {}
    for each in judged:
        if each.fits:
            fit.append(each.name)
        else:
            (ever if each.permanent else now)[each.name] = each.reason
    return fit, now, ever
