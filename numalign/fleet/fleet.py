"""
All nodes of one moment, asked together.

A door that answers many callers wants one picture of the cluster at a time, and the next one made beside
it. So a fleet never changes. What follows it takes over its columns and what was found out, and asks only
nodes of which something changed: for what could *ever* be that is their hardware or their kubelet's policy,
for what fits *now* also what is free.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from numalign.fleet.arrays import Bools, Rows
from numalign.fleet.changes import Changes
from numalign.fleet.columns import Moment, When
from numalign.fleet.found import Able, Found, Place, Room
from numalign.fleet.layout import alike
from numalign.fleet.question import Question
from numalign.fleet.recent import Caches, Recent
from numalign.fleet.roster import Roster
from numalign.fleet.survey import Group, Survey, refusal_text
from numalign.fleet.sweep import Sweep
from numalign.fleet.weight import weight
from numalign.rules.demand import asking
from numalign.rules.evaluate import evaluate, evaluating
from numalign.rules.intent import Policy
from numalign.rules.kubelet import work
from numalign.rules.topology import Node, node_class
from numalign.rules.verdict import Verdict

REMEMBERED = 1024
"""Questions whose answers are kept; the least recently asked goes first. One byte a node, so megabytes."""

GUESSES = 8
"""Nodes that are asked for room one by one before all are: nearly always one of them has some."""

HEARD = 128
"""Questions of which it is kept what every class says: of those that wait for the sentence to be made of it.

That is as much as all templates of a workload come to. The sentence is some hundred bytes, what it is made of
grows with the classes; and pods that fit nowhere are rare, so more of it would fill memory for a long time.
"""

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Heritage:
    """What one moment leaves to the next: its nodes, to be changed, and what was found out about them."""

    roster: Roster
    able: Found[Able]
    room: Found[Room]

    @classmethod
    def nothing(cls, remembered: int) -> "Heritage":
        """What the first moment starts from."""
        return cls(Roster(), Found(remembered), Found(remembered))


class Fleet:
    """The nodes of one moment, each with a name of its own.

    Build the next moment with `following`, which keeps every answer that still holds and costs little for
    nodes that are the very objects they were; that may be done in another thread while this moment is asked.
    One moment is asked by one thread only. Of what was asked, so much is `remembered`.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        unknown: int = 0,
        heritage: Heritage | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        self.nodes = tuple(nodes)
        self.unknown = unknown
        self._remembered = remembered
        left = heritage or Heritage.nothing(remembered)
        self._roster, self._able, self._room = left.roster, left.able, left.room
        self._roster.become({node.name: node for node in self.nodes})
        self._sweeps: dict[tuple[Question, Moment], Sweep] = {}
        heard = min(HEARD, remembered)
        self._surveys: Recent[Question, Survey] = Recent(remembered, weigh=_weight_of_answer)
        self._groups: Recent[Question, list[Group]] = Recent(heard, weigh=_weight_of_answer)
        self._why: Recent[tuple[Question, Policy], str] = Recent(remembered, weigh=_weight_of_text)
        self._verdicts: Recent[tuple[str, Question], Verdict] = Recent(_AT_ONCE, weigh=_weight_of_verdict)
        self.classes = self._roster.classes.every()
        """Every class name in use, sorted."""

    def caches(self) -> Caches:
        """What is remembered of what was asked."""
        return {
            "able": self._able.cache,
            "room": self._room.cache,
            "surveys": self._surveys,
            "groups": self._groups,
            "verdicts": self._verdicts,
            "refusals": self._why,
        }

    def following(self, nodes: Iterable[Node], *, unknown: int = 0) -> "Fleet":
        """The fleet of the next moment, with what was found out before."""
        left = Heritage(self._roster.copy(), self._able.following(), self._room.following())
        return Fleet(nodes, unknown=unknown, heritage=left, remembered=self._remembered)

    def class_of(self, node: Node) -> str:
        """The class of one of this fleet's nodes, by its facts."""
        if self._roster.get(node.name) is node:
            return self._roster.class_of(node.name)
        return node_class(node)

    def verdict(self, name: str, question: Question) -> Verdict | None:
        """What one node says as things stand; None for a node whose topology is not known."""
        for _ in self.hear(name, question):
            pass
        return self._verdicts.peek((name, question))

    def hear(self, name: str, question: Question) -> Iterator[None]:
        """Find out what one node says, step by step; `verdict` then answers at once."""
        node = self._roster.get(name)
        if node and (name, question) not in self._verdicts:
            verdict = yield from evaluating(node, question.demand, question.intent)
            self._verdicts.put((name, question), verdict)

    # What could ever be.

    def ask(self, question: Question) -> Iterator[None]:
        """Find out what is not known yet, step by step; `ever` then answers at once.

        A caller that must not be busy for long lets others run between the steps.
        """
        if question not in self._surveys:
            yield from self._find_able(question)

    def _find_able(self, question: Question) -> Iterator[None]:
        facts, known = self._roster.facts, self._able.of(question)
        rows = self._since(facts, known.place) if known else None
        sweep = self._begin(question, When.EMPTY, rows)
        yield from sweep.run()
        self._end(question, When.EMPTY)
        able = sweep.patched(known.rows if known else None)
        unanswered = sweep.patched_unanswered(known.unanswered if known else None)
        self._able.put(Able(question, facts.place, able, unanswered))

    def ever(self, question: Question) -> Survey:
        """Which classes could hold the pod with nothing else on them."""
        return self._surveys.get(question, lambda: self._survey(question))

    def _survey(self, question: Question) -> Survey:
        found = self._found(question)
        feasible = {*self._roster.classes.among(found.rows)} if found else frozenset[str]()
        return Survey(
            feasible=tuple(name for name in self.classes if name in feasible),
            infeasible=tuple(name for name in self.classes if name not in feasible),
            able=int(np.count_nonzero(found.rows)) if found else 0,
            known=len(self.nodes),
            unknown=self.unknown,
            unanswered=int(np.count_nonzero(found.unanswered)) if found else 0,
        )

    def _able_to(self, question: Question) -> Bools:
        """Which rows could ever take the pod."""
        found = self._found(question)
        return found.rows if found else np.zeros(0, dtype=np.bool_)

    def _found(self, question: Question) -> Able | None:
        known = self._able.of(question)
        if known is None or known.place != self._roster.facts.place:
            for _ in self._find_able(question):
                pass
            known = self._able.of(question)
        return known

    # What fits now.

    def look(self, question: Question) -> Iterator[None]:
        """Find out what `now` or, for a pod that fits nowhere, `why_not` says, step by step."""
        yield from self.ask(question)
        if self.ever(question).able:
            yield from self._find_room(question)
            return
        for policy in _below(question.intent.policy):
            yield from self.ask(question.with_policy(policy))
        if not any((question, floor) in self._why for floor in Policy):
            yield from self._hear(question)

    def now(self, question: Question) -> bool:
        """Whether some node that could ever take the pod could do so as things stand, or may (`Survey`)."""
        for _ in self.look(question):
            pass
        return self._witness(question) is not None

    def _witness(self, question: Question) -> Node | None:
        """A node that is known to have room."""
        known = self._room.of(question)
        if known is None or known.witness is None:
            return None
        # A node that is told anew may be as it was.
        return known.witness if alike(self._roster.get(known.witness.name), known.witness) else None

    def _find_room(self, question: Question) -> Iterator[None]:
        """Only nodes that have changed since somebody looked can tell anything new."""
        changes, known = self._roster.changes, self._room.of(question)
        if self._witness(question) or (known and known.place == changes.place):
            return
        rows = self._since(changes, known.place) if known and known.witness is None else None
        if rows is None:
            yield from self._guess_room(question)
        if self._witness(question) is None:
            yield from self._sweep_for_room(question, rows)

    def _guess_room(self, question: Question) -> Iterator[None]:
        for row in np.flatnonzero(self._able_to(question))[:GUESSES]:
            node = self._roster.node(int(row))
            verdict = yield from evaluating(node, question.demand, question.intent)
            if not verdict.refused:
                self._room.put(Room(question, self._roster.changes.place, node))
                return
            yield

    def _sweep_for_room(self, question: Question, rows: Rows | None) -> Iterator[None]:
        """Ask all that could ever take the pod until one does."""
        able = self._able_to(question)
        sweep = self._begin(question, When.NOW, rows, among=able if rows is None else able[rows])
        for _ in sweep.run():
            if sweep.found is not None:
                break
            yield
        self._end(question, When.NOW)
        witness = None if sweep.found is None else self._roster.node(sweep.found)
        self._room.put(Room(question, self._roster.changes.place, witness))

    def _since(self, changes: Changes, place: Place) -> Rows | None:
        """The rows that changed since; None for all of them, if those are most."""
        height = self._roster.height
        rows = changes.since(place, below=height)
        return rows if rows is not None and 2 * len(rows) <= height else None

    def _begin(
        self, question: Question, when: Moment, rows: Rows | None, *, among: Bools | None = None
    ) -> Sweep:
        """The sweep that is under way, if anybody else is waiting for the same, else a new one."""
        if len(self._sweeps) >= _AT_ONCE:
            self._sweeps.clear()
        begun = Sweep(self._roster, question, when, rows, among=among)
        return self._sweeps.setdefault((question, when), begun)

    def _end(self, question: Question, when: Moment) -> None:
        self._sweeps.pop((question, when), None)

    # Why a pod fits nowhere.

    def why_not(self, question: Question, *, floor: Policy = Policy.BEST_EFFORT) -> str:
        """Why no node could ever take the pod, and what would help; no policy below `floor` is advised.

        Each class speaks through one of its nodes, for they differ by no more than parts of a GiB.
        """
        return self._why.get((question, floor), lambda: self._because(question, floor))

    def _because(self, question: Question, floor: Policy) -> str:
        for _ in self._hear(question):
            pass
        groups = self._groups.get(question, list)
        looser = (policy for policy in _below(question.intent.policy) if policy.at_least(floor))
        helpful = (policy for policy in looser if self._surely_able(question.with_policy(policy)))
        return refusal_text(
            groups,
            question.intent,
            unknown=self.unknown,
            looser=next(helpful, None),
            enough=partial(self._fits_with, question),
        )

    def _surely_able(self, question: Question) -> bool:
        survey = self.ever(question)
        return survey.able > survey.unanswered

    def _fits_with(self, question: Question, container: str, resource: str, amount: int) -> bool:
        """Whether the pod would fit somewhere if it asked for this much; no, if that takes long to say."""
        less = asking(question.demand, container, resource, amount)
        left = work.MOST_AT_ONCE
        for _, empty, _ in self._examples():
            left -= work.units(empty, less)
            if left < 0 or evaluate(empty, less, question.intent).admitted:
                return left >= 0
        return False

    def _examples(self) -> Iterator[tuple[str, Node, int]]:
        """Each class, one of its nodes with nothing on it, and how many it has."""
        for name, row, count in self._roster.classes.members():
            yield name, self._roster.node(row).emptied(), count

    def _hear(self, question: Question) -> Iterator[None]:
        """Find out what each class says, one at each step."""
        if question in self._groups:
            return
        groups = []
        for name, empty, count in self._examples():
            verdict = yield from evaluating(empty, question.demand, question.intent)
            groups.append(Group(name, count, verdict))
            yield
        self._groups.get(question, lambda: groups)


def _weight_of_answer(question: Question, answer: object) -> int:
    return question.weight + weight(answer)


def _weight_of_verdict(key: tuple[str, Question], verdict: Verdict) -> int:
    return _weight_of_answer(key[1], verdict)


def _weight_of_text(key: tuple[Question, Policy], text: str) -> int:
    return _weight_of_answer(key[0], text)


def _below(policy: Policy) -> list[Policy]:
    """The policies that promise something, but less than this one, the tightest first."""
    return [other for other in reversed(Policy) if other is not Policy.NONE and not other.at_least(policy)]
