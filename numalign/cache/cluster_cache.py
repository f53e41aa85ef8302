"""
A cluster in memory: its nodes, the shapes that nodes can have, and their answers to pods.

What could *ever* fit is evaluated for shapes, which hardly ever change; what fits *now*, for the nodes of
those that could. Nodes are added and removed in place, and results are updated for the rows that changed.
What takes long is done in steps (`Pace`), so that other requests are answered in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch import Batch, OwnNode
from numalign.cache.change_log import TrackedArray
from numalign.cache.cluster_nodes import ClusterNodes
from numalign.cache.eligibility import MAY_GO, Eligibility, counted
from numalign.cache.evaluation import Evaluation, Workspace
from numalign.cache.label_column import LabelColumn
from numalign.cache.node_table import NOWHERE
from numalign.cache.pace import Pace
from numalign.cache.question import Question
from numalign.cache.shape_table import ShapeRule, ShapeTable, deriving
from numalign.cache.survey import Group, Survey, refusal_text
from numalign.cache.unknown_node_table import UnknownNodeTable
from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.remedies import why_not_when_empty
from numalign.decision.verdict import Cause, Verdict
from numalign.kubelet import work_limit
from numalign.lru import LRU, Caches, is_large
from numalign.model.constraints import ANYWHERE, Constraints, unmet_now
from numalign.model.demand import with_request
from numalign.model.intent import Policy
from numalign.model.node import Node, alike
from numalign.model.resources import CPU, MEMORY, NODE_LEVEL, Kind, kind
from numalign.model.steps import Steps, finished
from numalign.shapes import GrowablePools, KnownShape, LeftOut, Pool, Shape, UnknownNode, keyed
from numalign.shapes.growable_pools import BUILT_IN, PoolNode
from numalign.shapes.new_nodes import loosened

REMEMBERED = 1024
"""The size of the cache of questions and answers."""

MOST_ANSWERS = 2**21
"""The limit of answers of nodes to all cached questions together: one takes about twenty bytes."""

LEAST_EVALUATIONS = 16
"""The limit of cached questions however many nodes there are."""

SHAPE_VERDICTS = 4096
"""The limit of verdicts of shapes that are cached until the sentence is built, of one question at least.

The sentence has some hundred bytes, its source grows with the shapes. Pods that fit nowhere are rare, so more
would fill memory for a long time.
"""

FIRST_TRIED = 8
"""Nodes that are checked for room one by one before all are: nearly always one of them has some."""

_TOO_SMALL = frozenset({Cause.NODE_TOO_SMALL, Cause.ZONES_TOO_SMALL})
_EVERYWHERE = NODE_LEVEL | {CPU, MEMORY}
"""Resources that every node has, whether or not it lists them."""

_Version = tuple[object, ...]
"""The state in which a result is valid."""

_Pod = tuple[Question, Constraints]
"""The question of a pod, and its constraints."""


@dataclass(frozen=True, slots=True)
class _Able:
    """What could ever take a pod: which shapes, which nodes.

    Of the nodes, which are `unanswered`, and which could take it only while other pods use a part of them.
    """

    shapes: Bools
    nodes: Bools
    unanswered: Bools
    not_when_empty: Bools


class ClusterCache:
    """Nodes, shapes and nodes without topology, each with a unique name. Used by one thread.

    `remembered` limits the cached questions.
    """

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self.nodes = ClusterNodes()
        self._shape_table = ShapeTable()
        self.unknown_nodes = UnknownNodeTable()
        self.pace = Pace()
        self.workspace = Workspace(self.pace)
        self.eligibility = Eligibility(self.nodes)
        self.unknown_eligibility = Eligibility(self.unknown_nodes)
        self._left_out: LeftOut | None = None
        self._pools, self._pool_nodes = self._following(BUILT_IN)
        self._listed_shapes: set[str] = set()
        self._derived_shapes: Mapping[str, KnownShape] = {}
        self._derived_at: object = None
        self._shapes_version = 0
        self._shape_rows: tuple[_Version | None, Rows] = (None, np.zeros(0, dtype=np.intp))
        self._of_nodes: LRU[Question, Evaluation] = LRU(remembered, large=_is_large)
        self._of_shapes: LRU[Question, Evaluation] = LRU(remembered, large=_is_large)
        # By whether they are of nodes, and not of shapes.
        self._in_work: WeakValueDictionary[tuple[bool, Question], Evaluation] = WeakValueDictionary()
        self._eligible_shapes: LRU[tuple[ShapeRule, Constraints], TrackedArray] = LRU(
            remembered, large=lambda key, _: is_large(key[1])
        )
        self._room: LRU[_Pod, Node] = LRU(remembered, large=_pod_is_large)
        self._surveys: LRU[_Pod, tuple[_Version, Survey]] = LRU(remembered, large=_pod_is_large)
        self._why: LRU[tuple[Question, Constraints, Policy], tuple[_Version, str]] = LRU(
            remembered, large=lambda key, kept: _pod_is_large(key[:2], kept)
        )
        self._groups: LRU[Question, tuple[object, Mapping[int, Verdict]]] = LRU(remembered, large=_is_large)

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        shapes: Iterable[KnownShape] = (),
        unknown: Mapping[str, UnknownNode] | None = None,
        left_out: LeftOut | None = None,
        pools: GrowablePools = BUILT_IN,
    ) -> "ClusterCache":
        """Return the cluster of these nodes; see `update_shapes`."""
        cache = cls()
        for node in nodes:
            cache.nodes.put(node)
        for name, each in (unknown or {}).items():
            cache.unknown_nodes.update(name, each)
        cache.update_shapes(keyed(shapes), left_out, pools)
        finished(cache.derive_shapes())
        return cache

    def caches(self) -> Caches:
        """Return the caches, by their names in metrics."""
        return {
            "nodes": self._of_nodes,
            "shapes": self._of_shapes,
            "eligible_shapes": self._eligible_shapes,
            "room": self._room,
            "surveys": self._surveys,
            "groups": self._groups,
            "refusals": self._why,
            "verdicts": self.workspace.usual,
            "large_verdicts": self.workspace.large,
            **self.eligibility.caches(),
            **{f"unknown_{name}": cache for name, cache in self.unknown_eligibility.caches().items()},
        }

    def evaluated(self) -> Mapping[str, int]:
        """Return how many nodes were evaluated for pods: in `columns`, and by the rules, by reason."""
        work = self.workspace
        return {"columns": work.in_columns, **{why.value: count for why, count in work.by_rules.items()}}

    # What the cluster is.

    def update_shapes(
        self,
        shapes: Mapping[str, KnownShape | None],
        left_out: LeftOut | None = None,
        pools: GrowablePools = BUILT_IN,
    ) -> None:
        """Add or update shapes by their keys (`ShapeHistory.pop_changed`); remove those that are None.

        Others are `left_out`, and `pools` may grow others; the default is what holds without a policy file.
        Shapes of nodes that are not among all shapes are derived from these nodes.
        """
        self._shape_table.update(shapes)
        self._derived_shapes = {
            name: known for name, known in self._derived_shapes.items() if name not in shapes
        }
        for key, known in shapes.items():
            (self._listed_shapes.discard if known is None else self._listed_shapes.add)(key)
        self._derived_at = None
        self._left_out = left_out
        if pools != self._pools:
            self._pools, self._pool_nodes = self._following(pools)
        self._shapes_version += 1

    def _following(self, pools: GrowablePools) -> tuple[GrowablePools, LabelColumn]:
        """Return the pools, and what nodes without topology have in common with others of theirs."""
        return pools, LabelColumn(self.unknown_nodes, lambda node: pools.node(node.attributes))

    def shapes(self) -> Sequence[tuple[int, KnownShape]]:
        """Return all shapes, by name; the declared ones last, each with its row."""
        return self._shapes.known()

    def derive_shapes(self) -> Steps[None]:
        """Derive the shapes of nodes that were not given from these nodes, if any changed."""
        place, version = (self.nodes.facts.place, self.nodes.attributes.place), self._shapes_version
        if self._derived_at == place:
            return
        missing = self.nodes.shapes.every() - self._listed_shapes
        rows = self.nodes.shapes.rows(missing).tolist() if missing else []
        derived = yield from deriving([(self.nodes.shapes.of(row), self.nodes.node(row)) for row in rows])
        if version != self._shapes_version:
            # Others were listed meanwhile.
            yield from self.derive_shapes()
            return
        gone = dict.fromkeys(self._derived_shapes.keys() - self._listed_shapes - derived.keys())
        if derived != self._derived_shapes or gone:
            self._shape_table.update({**gone, **derived})
            self._derived_shapes = derived
            self._shapes_version += 1
        self._derived_at = place

    @property
    def _shapes(self) -> ShapeTable:
        """All shapes, those derived from nodes included."""
        self.pace.do("shapes", self.derive_shapes())
        return self._shape_table

    def _version(self) -> _Version:
        """Return the version of everything that could ever fit: free amounts are not part of it."""
        self.pace.do("shapes", self.derive_shapes())
        nodes, unknown = self.nodes, self.unknown_nodes
        of_nodes = nodes.facts.place, nodes.attributes.place, nodes.classes.version
        return *of_nodes, unknown.facts.place, unknown.attributes.place, self._shapes_version

    @property
    def unknown(self) -> int:
        """The number of nodes without topology."""
        return len(self.unknown_nodes)

    @property
    def informed(self) -> bool:
        """Whether any shape is known: of a present or earlier node, or a declared one."""
        return len(self._shapes) > 0

    @property
    def listed(self) -> frozenset[str]:
        """Every resource that a shape lists, or a node without topology."""
        return self._shapes.listed | self.unknown_nodes.listed()

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class name of a shape, sorted. A label with any other value is not ours: it says nothing."""
        return tuple(sorted(self._shapes.classes))

    # Many nodes at once, as they are now.

    def ask(self, names: Sequence[str], question: Question, own: OwnNode | None = None) -> Batch:
        """Return the answers of these nodes to a question."""
        evaluation = self._evaluation(question)
        evaluation.calls += not self.pace.again
        return Batch(names, self.nodes.rows(names), evaluation, own)

    def _evaluation(self, question: Question) -> Evaluation:
        self._of_nodes.limit = min(
            self._remembered, max(LEAST_EVALUATIONS, MOST_ANSWERS // max(1, len(self.nodes)))
        )
        evaluation = self._of_nodes.get(
            question,
            lambda: (
                self._in_work.get((True, question))
                or Evaluation(self.nodes, question, self.nodes.healths, self.workspace)
            ),
        )
        return self._worked_on((True, question), evaluation)

    # One node.

    def verdict(self, name: str, question: Question) -> Verdict | None:
        """Return the current verdict of one node; None for a node without a known topology."""
        [row] = self.nodes.rows([name])
        return None if row == NOWHERE else self._evaluation(question).verdict(int(row))

    # What could ever be.

    def ever(self, question: Question, constraints: Constraints = ANYWHERE) -> Survey:
        """Return the survey of what could take the pod when healthy, where the pod may go."""
        key = question, constraints
        kept = self._surveys.find(key)
        if kept is None or not self._is_current(kept):
            kept = self._version(), self._survey(question, constraints)
            self._surveys.put(key, kept)
        return kept[1]

    def _is_current(self, kept: tuple[_Version, object] | None) -> bool:
        return kept is not None and kept[0] == self._version()

    def _survey(self, question: Question, constraints: Constraints) -> Survey:
        able, open_shapes = self._able(question, constraints), self._eligible(constraints)
        open_nodes = self.eligibility.ever(constraints)
        feasible, count = self._classes_of(able), int(np.count_nonzero(able.nodes & open_nodes))
        when_empty = (able.nodes & open_nodes & ~able.not_when_empty).any()
        unmatched = not (open_shapes.any() or self.unknown_eligibility.ever(constraints).any())
        fallback = None if count or unmatched else self._fallback(able.shapes, constraints)
        answered = bool(count or fallback)
        return Survey(
            feasible=tuple(name for name in self.classes if name in feasible),
            infeasible=tuple(name for name in self.classes if name not in feasible),
            able=count,
            known=len(self.nodes),
            unknown=self.unknown,
            unanswered=int(np.count_nonzero(able.unanswered & open_nodes)),
            not_when_empty=() if when_empty else self._not_when_empty(question, constraints),
            fallback=fallback,
            unmatched=unmatched,
            bare=self._bare(question, constraints),
            unlisted=tuple(self._unlisted(question)),
            incomplete=self._left_out is not None and self._left_out.may_list(_devices(question)),
            grown_by=None if answered else self._grown_by(constraints),
            bare_grown_by=None if answered else self._bare_grown_by(constraints),
        )

    def _grown_by(self, constraints: Constraints) -> Pool | None:
        """Return a pool that may get a node which the pod may use: one that it names, or one of a shape."""
        if named := self._pools.named(constraints):
            return named
        growing = self._eligible(constraints, self._pools.unmet)
        # What is declared is all that is known of such nodes.
        shapes = (known.shape for row, known in self._shapes.known() if growing[row] and not known.declared)
        return next((self._pools.grown_by(shape, constraints) for shape in shapes), None)

    def _bare_grown_by(self, constraints: Constraints) -> Pool | None:
        """Return the same for the pools of nodes without topology."""
        nodes = (each for each in self._pool_nodes.present if isinstance(each, PoolNode))
        return next(filter(None, (self._pools.grown_by_node(each, constraints) for each in nodes)), None)

    def _not_when_empty(self, question: Question, constraints: Constraints) -> tuple[str, ...]:
        """Return why an empty node refuses a pod that nodes in use may take, and what would help."""
        rows = self._shape_evaluation(question).not_when_empty() & self._eligible(constraints)
        node = next((known.shape.node for row, known in self._shapes.known() if rows[row]), None)
        return why_not_when_empty(node, question.demand, question.intent) if node else ()

    def _unlisted(self, question: Question) -> list[str]:
        # Zones do not list CPUs and memory if their kubelet generates no hints for them.
        listed = self.listed | _EVERYWHERE
        return [name for name in question.demand.total.positive() if name not in listed]

    def _classes_of(self, able: _Able) -> set[str]:
        """Return the names of classes with a node that could take a pod."""
        shapes = (known.shape for row, known in self._shapes.known() if able.shapes[row])
        return {*(shape.node_class for shape in shapes), *self.nodes.classes.among(able.nodes)}

    def _fallback(self, shapes: Bools, constraints: Constraints) -> KnownShape | None:
        """Return the one of these shapes that is most likely to have a node for the pod soon, if any may."""
        for rule in (Shape.unmet, Shape.unmet_by_new):
            open_shapes = shapes & self._eligible(constraints, rule)
            if open_shapes.any():
                known = (known for row, known in self._shapes.known() if open_shapes[row])
                return max(known, key=_last_seen)
        return None

    def _bare(self, question: Question, constraints: Constraints) -> int:
        """Return how many nodes without topology are large enough, and like one that the pod may use."""
        large = self.unknown_nodes.large_enough(question.demand)
        counts = (
            int(np.count_nonzero(self.unknown_eligibility.ever(each) & large))
            for each in (constraints, loosened(constraints))
        )
        return next(filter(None, counts), 0)

    def _able(self, question: Question, constraints: Constraints) -> _Able:
        """Return which shapes and nodes could take the pod when healthy, in any state.

        A shape whose largest node could not may still have one that could: nodes of a shape differ by parts
        of a GiB. More can be worse, if amounts of one resource and of another have to be in equally many
        zones. So each node is evaluated before a pod is refused.
        """
        of_shapes = self._shape_evaluation(question)
        shapes, unanswered = of_shapes.able(), self._nodes_of(of_shapes.unanswered())
        nodes, not_when_empty = self._nodes_of(shapes), self._nodes_of(of_shapes.not_when_empty())
        if (shapes & self._eligible(constraints)).any():
            return _Able(shapes, nodes, unanswered, not_when_empty)
        of_nodes = self._evaluation(question)
        able = of_nodes.able()
        rows = self._rows_of_shapes()[able]
        # During an update a node may be here before its shape is.
        shapes[rows[rows >= 0]] = True
        return _Able(
            shapes,
            nodes | able,
            unanswered | of_nodes.unanswered(),
            not_when_empty | of_nodes.not_when_empty(),
        )

    def _shape_evaluation(self, question: Question) -> Evaluation:
        evaluation = self._of_shapes.get(
            question,
            lambda: (
                self._in_work.get((False, question))
                or Evaluation(self._shapes, question, workspace=self.workspace.apart())
            ),
        )
        return self._worked_on((False, question), evaluation)

    def _worked_on(self, key: tuple[bool, Question], evaluation: Evaluation) -> Evaluation:
        """Keep an evaluation while an answer is computed from it: few large ones are cached."""
        if key[1].large:
            self._in_work[key] = evaluation
            self.pace.use(evaluation)
        return evaluation

    def _eligible(self, constraints: Constraints, rule: ShapeRule = Shape.unmet) -> Bools:
        """Return which shapes a pod may use by a rule."""
        array, shapes = self._eligible_array(constraints, rule), self._shapes
        may_go = partial(shapes.may_go, rule, constraints)
        self.pace.do(id(array), array.catching_up(None, shapes.height, may_go))
        return array.current(shapes.height, lambda rows: finished(may_go(rows)))

    def _eligible_array(self, constraints: Constraints, rule: ShapeRule) -> TrackedArray:
        key = rule, constraints
        return self._eligible_shapes.get(
            key, lambda: TrackedArray(self._shapes.all_changes, np.zeros(0, dtype=np.bool_))
        )

    def _rows_of_shapes(self) -> Rows:
        """Return by row of a node the row of its shape, -1 for none."""
        version = self._version()
        if self._shape_rows[0] != version:
            rows = self.nodes.shapes.mapped(self._shapes.rows_by_name(), self.nodes.height)
            self._shape_rows = version, rows
        return self._shape_rows[1]

    def _nodes_of(self, shapes: Bools) -> Bools:
        """Return the rows of the nodes of some shapes."""
        # A row without a shape has the index -1, which is the extra entry.
        nodes: Bools = np.append(shapes, np.False_)[self._rows_of_shapes()]
        return nodes

    # What fits now.

    def now(self, question: Question, constraints: Constraints = ANYWHERE) -> bool:
        """Return whether some node that could ever take the pod, and that it may use, could do so now.

        A node that does not answer (`Survey`) may do so. Nearly always one of the first has room.
        """
        pod = question, constraints
        if self._known_room(pod):
            return True
        evaluation = self._evaluation(question)
        rows = np.flatnonzero(self._able(question, constraints).nodes & self.eligibility.now(constraints))
        tried = (row for row in rows[:FIRST_TRIED].tolist() if not evaluation.verdict(row).refused)
        row = next(tried, None)
        if row is None and len(rows) > FIRST_TRIED:
            row = next(iter(rows[evaluation.possible()[rows]].tolist()), None)
        if row is not None:
            self._room.put(pod, self.nodes.node(row))
        return row is not None

    def _known_room(self, pod: _Pod) -> Node | None:
        """Return the node that had room at the last check, if it is unchanged."""
        before = self._room.find(pod)
        node = self.nodes.get(before.name) if before else None
        if node is None or not alike(node, before):
            return None
        return node if unmet_now(pod[1], node.name, node.attributes) is None else None

    # Why a pod fits nowhere.

    def why_not(
        self,
        question: Question,
        constraints: Constraints = ANYWHERE,
        *,
        floor: Policy = Policy.BEST_EFFORT,
    ) -> str:
        """Return why no node could ever take the pod, with advice; no policy below `floor` is advised.

        Empty if no node that it may use refuses it.
        """
        key = question, constraints, floor
        kept = self._why.find(key)
        if kept is None or not self._is_current(kept):
            kept = self._version(), self._because(question, constraints, floor)
            self._why.put(key, kept)
        return kept[1]

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
        """Return the verdict of each shape, and which of its nodes a pod may use; declared ones last."""
        verdicts = self._verdicts_of_shapes(question)
        unmet, rows = self.eligibility.unmet_ever(constraints), self._rows_of_shapes()
        return tuple(_group(known, verdicts[row], unmet[rows == row]) for row, known in self._shapes.known())

    def _verdicts_of_shapes(self, question: Question) -> Mapping[int, Verdict]:
        """Return the verdict of each shape by its row."""
        kept = self._groups.find(question)
        if kept is None or kept[0] != self._shapes.all_changes.place:
            self.pace.do(question, self._evaluate_shapes(question))
        kept = self._groups.find(question)
        return kept[1] if kept else {}

    def _evaluate_shapes(self, question: Question) -> Iterator[None]:
        verdicts, place = dict[int, Verdict](), self._shapes.all_changes.place
        for row, known in self._shapes.known():
            verdicts[row] = yield from evaluating(known.shape.node, question.demand, question.intent)
            yield
        self._groups.limit = min(self._remembered, max(1, SHAPE_VERDICTS // max(1, len(verdicts))))
        self._groups.put(question, (place, verdicts))

    def too_small(self, question: Question) -> bool:
        """Return whether the zones of all known shapes, or all of each, have too little for a pod."""
        refusals = [verdict.refusal for verdict in self._verdicts_of_shapes(question).values()]
        return bool(refusals) and all(refusal and refusal.cause in _TOO_SMALL for refusal in refusals)

    def _surely_able(self, question: Question, constraints: Constraints) -> bool:
        survey = self.ever(question, constraints)
        return survey.able > survey.unanswered

    def _fits_with(
        self, question: Question, constraints: Constraints, container: str, resource: str, amount: int
    ) -> bool:
        """Return whether the pod would fit somewhere with this request; False if that takes too long."""
        less = with_request(question.demand, container, resource, amount)
        left, eligible = work_limit.LIMIT_AT_ONCE, self._eligible(constraints)
        for row, known in self._shapes.known():
            if not eligible[row]:
                continue
            left -= work_limit.units(known.shape.node, less)
            if left < 0 or evaluate(known.shape.node, less, question.intent).admitted:
                return left >= 0
        return False


def _group(known: KnownShape, verdict: Verdict, unmet: Ints) -> Group:
    return Group(known, int(np.count_nonzero(unmet == MAY_GO)), verdict, counted(unmet))


def _devices(question: Question) -> frozenset[str]:
    return frozenset(name for name in question.demand.total.positive() if kind(name) is Kind.DEVICE)


def _last_seen(known: KnownShape) -> tuple[bool, float]:
    """Return the sort key: present nodes first, then those seen last; only declared ones come last."""
    return known.nodes > 0, known.seen or 0.0


def _below(policy: Policy) -> list[Policy]:
    """Return the policies that align, but less than this one, the tightest first."""
    return [other for other in reversed(Policy) if other is not Policy.NONE and not other.at_least(policy)]


def _is_large(question: Question, _answer: object) -> bool:
    return question.large


def _pod_is_large(pod: _Pod, _answer: object) -> bool:
    return pod[0].large or is_large(pod[1])
