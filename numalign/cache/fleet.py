"""
All nodes of one moment, asked together.

Whoever answers many callers wants one picture of the cluster at a time, and the next one made beside it. So a
fleet never changes. What follows it takes over its columns and what was found out, and asks only what
changed: what could *ever* be is asked of shapes, which hardly ever do, what fits *now* of the nodes of those
that could, when they or what is free on them is not what it was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.columns import When
from numalign.cache.eligibility import MAY_GO, Eligibility, counted
from numalign.cache.found import Able, EligibleShapes, Found, Place, Placed, Places, Room
from numalign.cache.node_table import NOWHERE, NodeTable
from numalign.cache.question import Question
from numalign.cache.roster import Roster
from numalign.cache.shape_table import ShapeTable, derived
from numalign.cache.survey import Group, Survey, refusal_text
from numalign.cache.sweep import Sweep
from numalign.cache.unknown_node_table import UnknownNodeTable
from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.verdict import Verdict
from numalign.kubelet import work_limit
from numalign.lru import LRU, Caches
from numalign.memory_size import weight
from numalign.model.constraints import ANYWHERE, Constraints, unmet_now
from numalign.model.demand import with_request
from numalign.model.intent import Policy
from numalign.model.node import Node, alike, node_class
from numalign.model.resources import CPU, MEMORY, NODE_LEVEL
from numalign.model.steps import Steps, finished
from numalign.shapes import KnownShape, UnknownNode

REMEMBERED = 1024
"""Questions whose answers are kept; the least recently asked goes first. A byte a shape, and of those that no
shape could take a byte a node, so megabytes."""

GUESSES = 8
"""Nodes that are asked for room one by one before all are: nearly always one of them has some."""

HEARD = 128
"""Questions of which it is kept what every shape says: of those that wait for the sentence to be made of it.

That is as much as all templates of a workload come to. The sentence is some hundred bytes, what it is made of
grows with the shapes; and pods that fit nowhere are rare, so more of it would fill memory for a long time.
"""

_AT_ONCE = 64

_SHAPES_A_STEP = 32
"""Shapes that are asked at once whether a pod may go to their nodes."""

_Asking = tuple[NodeTable, Question, Constraints | Place | None]
"""Which nodes are asked what, and where the pod may go, or what is known of them by when."""

_EVERYWHERE = NODE_LEVEL | {CPU, MEMORY}
"""Resources that every node has, whether or not it lists them."""

_NO_BARE: Mapping[str, UnknownNode] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Heritage:
    """What one moment leaves to the next: its nodes, to be changed, and what was found out about them."""

    roster: Roster
    shapes: ShapeTable
    bare: UnknownNodeTable
    here: Eligibility
    bare_here: Eligibility
    able: Found[Question, Able]
    members: Found[Question, Able]
    ill: Found[Question, Able]
    eligible: Found[Constraints, EligibleShapes]
    room: Found[Placed, Room]

    @classmethod
    def nothing(cls, remembered: int) -> "Heritage":
        """What the first moment starts from."""
        roster, bare = Roster(), UnknownNodeTable()
        return cls(
            roster,
            ShapeTable(),
            bare,
            Eligibility(roster),
            Eligibility(bare),
            able=Found(remembered),
            members=Found(remembered),
            ill=Found(remembered),
            eligible=Found(remembered),
            room=Found(remembered),
        )

    def left(self) -> "Heritage":
        """All of it, to be changed apart."""
        roster, bare = self.roster.copy(), self.bare.copy()
        return Heritage(
            roster,
            self.shapes.copy(),
            bare,
            self.here.following(roster),
            self.bare_here.following(bare),
            self.able.following(),
            self.members.following(),
            self.ill.following(),
            self.eligible.following(),
            self.room.following(),
        )


@dataclass(frozen=True, slots=True)
class _Takers:
    """What could ever take a pod: which shapes, which nodes; of these those that did not answer."""

    shapes: Bools
    rows: Bools
    unanswered: Bools


class Fleet:
    """The nodes of one moment, each with a name of its own, and the shapes that nodes can be of.

    Shapes of nodes that are not among the `shapes` are read off these nodes. `bare` are nodes whose topology
    is not known, by name.

    Build the next moment with `following`, which keeps every answer that still holds and costs little for
    nodes that are the very objects they were; that may be done in another thread while this moment is asked.
    One moment is asked by one thread only. Of what was asked, so much is `remembered`.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        shapes: Sequence[KnownShape] = (),
        bare: Mapping[str, UnknownNode] = _NO_BARE,
        *,
        heritage: Heritage | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        self.nodes = tuple(nodes)
        self.unknown = len(bare)
        self._remembered = remembered
        left = self._heritage = heritage or Heritage.nothing(remembered)
        self._roster, self._shapes, self._bare = left.roster, left.shapes, left.bare
        self._roster.become({node.name: node for node in self.nodes})
        self._shapes.become([*shapes, *self._unlisted_shapes(shapes)])
        self._bare.become(bare)
        self._shape_rows = self._roster.shapes.numbered(self._shapes.of_nodes(), self._roster.height)
        self.listed = self._shapes.listed() | self._bare.listed()
        """Every resource that a shape lists, or a node without topology."""
        self._sweeps: dict[_Asking, Sweep] = {}
        heard = min(HEARD, remembered)
        self._surveys: LRU[Placed, Survey] = LRU(remembered, weigh=_weight_of_survey)
        self._heard: LRU[Question, Mapping[int, Verdict]] = LRU(heard, weigh=_weight_of_answer)
        self._why: LRU[tuple[Question, Constraints, Policy], str] = LRU(remembered, weigh=_weight_of_text)
        self._verdicts: LRU[tuple[str, Question], Verdict] = LRU(_AT_ONCE, weigh=_weight_of_verdict)
        self.classes = tuple(sorted(self._shapes.classes() | self._roster.labels.every()))
        """Every class name of a shape, and every one that a node is labelled with, sorted."""

    def _unlisted_shapes(self, shapes: Iterable[KnownShape]) -> list[KnownShape]:
        told = {each.shape.name for each in shapes if not each.declared}
        missing = self._roster.shapes.every() - told
        if not missing:
            return []
        named = ((self._roster.shape_of(node.name), node) for node in self.nodes)
        return derived((name, node) for name, node in named if name in missing)

    def caches(self) -> Caches:
        """What is remembered of what was asked."""
        left = self._heritage
        return {
            "able": left.able.cache,
            "able_nodes": left.members.cache,
            "able_ill": left.ill.cache,
            "eligible_shapes": left.eligible.cache,
            "room": left.room.cache,
            "surveys": self._surveys,
            "groups": self._heard,
            "verdicts": self._verdicts,
            "refusals": self._why,
            **left.here.caches(),
            **{f"bare_{name}": cache for name, cache in left.bare_here.caches().items()},
        }

    def following(
        self,
        nodes: Iterable[Node],
        shapes: Sequence[KnownShape] = (),
        bare: Mapping[str, UnknownNode] = _NO_BARE,
    ) -> "Fleet":
        """The fleet of the next moment, with what was found out before."""
        left = self._heritage.left()
        return Fleet(nodes, shapes, bare, heritage=left, remembered=self._remembered)

    @property
    def informed(self) -> bool:
        """Whether any shape is known: of a node that is here or was, or because it is declared."""
        return len(self._shapes) > 0

    def class_of(self, node: Node) -> str:
        """The class of a node, in health."""
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

    def ask(self, question: Question, constraints: Constraints = ANYWHERE) -> Iterator[None]:
        """Find out what is not known yet, step by step; `ever` then answers at once.

        A caller that must not be busy for long lets others run between the steps.
        """
        if (question, constraints) not in self._surveys:
            yield from self._find_takers(question, constraints)

    def ever(self, question: Question, constraints: Constraints = ANYWHERE) -> Survey:
        """What could take the pod, in health and with nothing else on it, and be where the pod may go."""
        return self._surveys.get((question, constraints), lambda: self._survey(question, constraints))

    def _survey(self, question: Question, constraints: Constraints) -> Survey:
        takers = finished(self._find_takers(question, constraints))
        reached, here = finished(self._find_eligible(constraints)), self._heritage.here.ever(constraints)
        feasible = self._classes_of(takers)
        able = int(np.count_nonzero(takers.rows & here))
        bare = self._heritage.bare_here.ever(constraints)
        return Survey(
            feasible=tuple(name for name in self.classes if name in feasible),
            infeasible=tuple(name for name in self.classes if name not in feasible),
            able=able,
            known=len(self.nodes),
            unknown=self.unknown,
            unanswered=int(np.count_nonzero(takers.unanswered & here)),
            fallback=None if able else self._fallback(takers.shapes & reached),
            unmatched=not (reached.any() or bare.any()),
            bare=int(np.count_nonzero(bare & self._bare.large_enough(question.demand))),
            unlisted=tuple(filter(self._is_unlisted, question.demand.total.positive())),
        )

    def _is_unlisted(self, name: str) -> bool:
        # CPUs and memory are not listed by zones whose kubelet gives no hints for them.
        return name not in self.listed and name not in _EVERYWHERE

    def _classes_of(self, takers: _Takers) -> set[str]:
        """The names of classes of which some node could take a pod."""
        shapes = (known.shape for row, known in self._shapes.known() if takers.shapes[row])
        return {*(shape.node_class for shape in shapes), *self._roster.labels.among(takers.rows)}

    def _fallback(self, shapes: Bools) -> KnownShape | None:
        """Of these shapes the one that comes back soonest, as far as anybody can tell."""
        known = (known for row, known in self._shapes.known() if shapes[row])
        return max(known, key=_lateness, default=None)

    def _find_takers(self, question: Question, constraints: Constraints) -> Steps[_Takers]:
        """What could take the pod; a shape whose largest node could not, can still have one that could.

        Nodes of a shape differ by parts of a GiB. More can be worse, where amounts of one resource and of
        another have to be found on as many zones; so each node is asked before a pod is turned away.
        """
        left = self._heritage
        reached = yield from self._find_eligible(constraints)
        able = yield from self._find_able(self._shapes, left.able, question)
        rows, unanswered = self._rows_of(able.rows), self._rows_of(able.unanswered)
        if (able.rows & reached).any():
            return _Takers(able.rows, rows, unanswered)
        members = yield from self._find_able(self._roster, left.members, question)
        ill = yield from self._find_able(self._roster.healths.nodes, left.ill, question)
        taken = self._in_health(members.rows, ill.rows)
        shapes = able.rows.copy()
        shapes[self._shape_rows[taken]] = True
        silent = self._in_health(members.unanswered, ill.unanswered)
        return _Takers(shapes, rows | taken, unanswered | silent)

    def _in_health(self, members: Bools, ill: Bools) -> Bools:
        """What holds of nodes, of ill ones by what they have in health."""
        rows = self._roster.healths.rows(None, self._roster.height)
        # One that is not ill is counted from the end, and left as it is.
        found: Bools = np.where(rows == NOWHERE, members, np.append(ill, False)[rows])
        return found

    def _rows_of(self, shapes: Bools) -> Bools:
        """The rows of the nodes of some shapes."""
        # A row without a node is counted from the end, and so meets the one that is no shape's.
        found: Bools = np.append(shapes, False)[self._shape_rows]
        return found

    def _find_able(self, nodes: NodeTable, found: Found[Question, Able], question: Question) -> Steps[Able]:
        """Which rows of some tables could ever take a pod: only those that changed are asked."""
        known = found.of(question)
        if known and known.place == nodes.facts.place:
            return known
        rows = _since(nodes, known) if known else None
        # Who has lost what was known goes on with nobody who asks the changed rows alone.
        key = (nodes, question, known.place if known else None)
        sweep = self._begin(key, Sweep(nodes, question, When.EMPTY, rows))
        yield from sweep.run()
        self._sweeps.pop(key, None)
        able = sweep.patched(known.rows if known else None)
        unanswered = sweep.patched_unanswered(known.unanswered if known else None)
        return found.put(Able(question, nodes.facts.place, able, unanswered))

    def _find_eligible(self, constraints: Constraints) -> Steps[Bools]:
        """Which shapes have nodes that a pod may go to."""
        told, found = self._shapes.told, self._heritage.eligible
        known = found.of(constraints)
        if known and known.place == told.place:
            return known.rows
        rows: Bools = np.zeros(self._shapes.height, dtype=np.bool_)
        for at, (row, each) in enumerate(self._shapes.known(), start=1):
            rows[row] = each.shape.unmet(constraints) is None
            if at % _SHAPES_A_STEP == 0:
                yield
        return found.put(EligibleShapes(constraints, told.place, rows)).rows

    # What fits now.

    def look(self, question: Question, constraints: Constraints = ANYWHERE) -> Iterator[None]:
        """Find out what `now` or, for a pod that fits nowhere, `why_not` says, step by step."""
        yield from self.ask(question, constraints)
        if self.ever(question, constraints).able:
            yield from self._find_room(question, constraints)
            return
        for policy in _below(question.intent.policy):
            yield from self.ask(question.with_policy(policy), constraints)
        if not any((question, constraints, floor) in self._why for floor in Policy):
            yield from self._hear(question)

    def now(self, question: Question, constraints: Constraints = ANYWHERE) -> bool:
        """Whether some node that could ever take the pod, and where it may go, could do so as things stand.

        One that does not answer (`Survey`) may do so.
        """
        for _ in self.look(question, constraints):
            pass
        return self._witness((question, constraints)) is not None

    def _witness(self, asked: Placed) -> Node | None:
        """A node that is known to have room."""
        known = self._heritage.room.of(asked)
        if known is None or known.witness is None:
            return None
        # A node that is told anew may be as it was.
        here = self._roster.get(known.witness.name)
        if here is None or not alike(here, known.witness):
            return None
        return here if unmet_now(asked[1], here.name, here.attributes) is None else None

    def _find_room(self, question: Question, constraints: Constraints) -> Iterator[None]:
        """Only nodes that have changed since somebody looked can tell anything new."""
        asked = question, constraints
        known = self._heritage.room.of(asked)
        if self._witness(asked) or (known and known.places == self._places()):
            return
        takers = yield from self._find_takers(question, constraints)
        rows = self._changed(known, takers.rows) if known and known.witness is None else None
        if rows is None:
            yield from self._guess_room(asked, takers.rows)
        if self._witness(asked) is None:
            yield from self._sweep_for_room(asked, takers.rows, rows)

    def _places(self) -> Places:
        nodes = self._roster
        return Places(nodes.changes.place, nodes.attributes.place, self._shapes.told.place)

    def _changed(self, known: Room, takers: Bools) -> Rows | None:
        """The nodes that may have room now, though it was found that none had; None for all of them."""
        nodes, new = self._roster, takers.copy()
        new[: len(known.asked)] &= ~known.asked
        free = nodes.changes.since(known.places.free, below=nodes.height)
        attributes = nodes.attributes.since(known.places.attributes, below=nodes.height)
        if free is None or attributes is None:
            return None
        rows = np.union1d(np.union1d(free, attributes), np.flatnonzero(new))
        return rows if _are_few(rows, nodes) else None

    def _guess_room(self, asked: Placed, takers: Bools) -> Iterator[None]:
        question, constraints = asked
        may = takers & self._heritage.here.now(constraints)
        for row in np.flatnonzero(may)[:GUESSES]:
            node = self._roster.node(int(row))
            verdict = yield from evaluating(node, question.demand, question.intent)
            if not verdict.refused:
                self._keep_room(asked, takers, node)
                return
            yield

    def _sweep_for_room(self, asked: Placed, takers: Bools, rows: Rows | None) -> Iterator[None]:
        """Ask all that may have room until one has."""
        question, constraints = asked
        may, key = takers & self._heritage.here.now(constraints), (self._roster, *asked)
        chosen = may if rows is None else may[rows]
        sweep = self._begin(key, Sweep(self._roster, question, When.NOW, rows, among=chosen))
        for _ in sweep.run():
            if sweep.found is not None:
                break
            yield
        self._sweeps.pop(key, None)
        self._keep_room(asked, takers, None if sweep.found is None else self._roster.node(sweep.found))

    def _keep_room(self, asked: Placed, takers: Bools, witness: Node | None) -> None:
        # Who has room is asked alone; if nobody has, it matters who was asked.
        asked_of = takers if witness is None else takers[:0]
        self._heritage.room.put(Room(asked, self._places(), witness, asked_of))

    def _begin(self, key: _Asking, begun: Sweep) -> Sweep:
        """The sweep that is under way, if anybody else is waiting for the same, else a new one."""
        if len(self._sweeps) >= _AT_ONCE:
            self._sweeps.clear()
        return self._sweeps.setdefault(key, begun)

    # Why a pod fits nowhere.

    def why_not(
        self,
        question: Question,
        constraints: Constraints = ANYWHERE,
        *,
        floor: Policy = Policy.BEST_EFFORT,
    ) -> str:
        """Why no node could ever take the pod, and what would help; no policy below `floor` is advised.

        Empty where no node that it may go to refuses it.
        """
        key = question, constraints, floor
        return self._why.get(key, lambda: self._because(question, constraints, floor))

    def _because(self, question: Question, constraints: Constraints, floor: Policy) -> str:
        looser = (policy for policy in _below(question.intent.policy) if policy.at_least(floor))
        helpful = (
            policy for policy in looser if self._surely_able(question.with_policy(policy), constraints)
        )
        return refusal_text(
            self.groups(question, constraints),
            question.intent,
            unknown=self.unknown,
            looser=next(helpful, None),
            enough=partial(self._fits_with, question, constraints),
        )

    def groups(self, question: Question, constraints: Constraints = ANYWHERE) -> tuple[Group, ...]:
        """What each shape says, and which of its nodes a pod may go to; the declared ones last."""
        for _ in self._hear(question):
            pass
        heard: Mapping[int, Verdict] = self._heard.get(question, dict)
        unmet = self._heritage.here.unmet_ever(constraints)
        return tuple(
            self._group(known, heard[row], unmet[self._shape_rows == row])
            for row, known in self._shapes.known()
        )

    def _group(self, known: KnownShape, verdict: Verdict, unmet: Ints) -> Group:
        open_to_it = int(np.count_nonzero(unmet == MAY_GO))
        return Group(known, open_to_it, verdict, counted(unmet))

    def _surely_able(self, question: Question, constraints: Constraints) -> bool:
        survey = self.ever(question, constraints)
        return survey.able > survey.unanswered

    def _fits_with(
        self, question: Question, constraints: Constraints, container: str, resource: str, amount: int
    ) -> bool:
        """Whether the pod would fit somewhere if it asked for this much; no, if that takes long to say."""
        less = with_request(question.demand, container, resource, amount)
        left, reached = work_limit.LIMIT_AT_ONCE, finished(self._find_eligible(constraints))
        for row, known in self._shapes.known():
            if not reached[row]:
                continue
            left -= work_limit.units(known.shape.node, less)
            if left < 0 or evaluate(known.shape.node, less, question.intent).admitted:
                return left >= 0
        return False

    def _hear(self, question: Question) -> Iterator[None]:
        """Find out what each shape says, one at each step."""
        if question in self._heard:
            return
        heard = {}
        for row, known in self._shapes.known():
            heard[row] = yield from evaluating(known.shape.node, question.demand, question.intent)
            yield
        self._heard.get(question, lambda: heard)


def _since(nodes: NodeTable, known: Able) -> Rows | None:
    """The rows whose facts changed since; None for all of them, if those are most."""
    rows = nodes.facts.since(known.place, below=nodes.height)
    return rows if rows is not None and _are_few(rows, nodes) else None


def _are_few(rows: Rows, nodes: NodeTable) -> bool:
    return 2 * len(rows) <= nodes.height


def _lateness(known: KnownShape) -> tuple[bool, float]:
    """Nodes that are here come first, then those that were here last; what was only declared comes last."""
    return known.nodes > 0, known.seen or 0.0


def _weight_of_survey(key: Placed, survey: Survey) -> int:
    question, constraints = key
    # The shape is there anyway.
    return question.weight + weight(constraints, replace(survey, fallback=None))


def _weight_of_answer(question: Question, answer: object) -> int:
    return question.weight + weight(answer)


def _weight_of_verdict(key: tuple[str, Question], verdict: Verdict) -> int:
    return _weight_of_answer(key[1], verdict)


def _weight_of_text(key: tuple[Question, Constraints, Policy], text: str) -> int:
    question, constraints, _ = key
    return question.weight + weight(constraints, text)


def _below(policy: Policy) -> list[Policy]:
    """The policies that promise something, but less than this one, the tightest first."""
    return [other for other in reversed(Policy) if other is not Policy.NONE and not other.at_least(policy)]
