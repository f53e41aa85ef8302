"""
All nodes of one moment, asked together.

A cluster has thousands of nodes but few kinds of machines, and a controller makes thousands of pods from one
template. So a verdict on what could *ever* be is given once per shape of node and question, and outlives the
snapshot: it can only change when a node's shape does. What fits *now* is asked node by node, and remembered
for this moment only.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from numalign.fleet.recent import Recent
from numalign.fleet.survey import Group, Survey, refusal_text
from numalign.rules.demand import Demand, asking
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import Intent, Policy
from numalign.rules.topology import Node, node_class
from numalign.rules.verdict import Verdict

REMEMBERED = 4096
"""Questions whose answers are kept; the least recently asked goes first. One byte a shape, so megabytes."""

_UNASKED, _NO, _YES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Question:
    """What one pod asks of every node; equal for all pods of one template."""

    demand: Demand
    intent: Intent

    def with_policy(self, policy: Policy) -> "Question":
        """The same pod, asking for another policy."""
        return replace(self, intent=replace(self.intent, policy=policy))

    def asks_less_than(self, level: Policy) -> bool:
        """Whether a pod that a kubelet would align promises less than this."""
        less = not self.intent.policy.at_least(level) or not self.concerned
        return self.demand.alignable and less

    @property
    def concerned(self) -> bool:
        """Whether the intent is about anything that the pod asks for."""
        return any(self.intent.concerns(name) for step in self.demand.steps for name in step.asks)


@dataclass(frozen=True, slots=True)
class Memory:
    """What outlives a moment: a number for every shape met so far, and answers by number.

    Both only grow together, so that an earlier moment, which some review may still be asking, stays right.
    """

    answers: Recent[Question, bytearray]
    numbers: dict[Node, int] = field(default_factory=dict)

    def crowded(self, living: int) -> bool:
        """Whether most shapes are gone for good."""
        return len(self.numbers) > 4 * max(living, 256)


class Fleet:
    """The nodes of one moment.

    Build the next moment with `following`, which keeps every answer that still holds; that may be done in
    another thread while this moment is asked. One moment is asked by one thread only. Of what was asked, so
    much is `remembered`.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        unknown: int = 0,
        memory: Memory | None = None,
        remembered: int = REMEMBERED,
    ) -> None:
        self.nodes = tuple(nodes)
        self.unknown = unknown
        self._remembered = remembered
        self._memory = memory or Memory(Recent(remembered))
        self._surveys: Recent[Question, Survey] = Recent(remembered)
        self._now: Recent[Question, bool] = Recent(remembered)
        self._groups: Recent[Question, list[Group]] = Recent(remembered)
        self._why: Recent[tuple[Question, Policy], str] = Recent(remembered)
        self._named = {node.name: node for node in self.nodes}
        shapes, numbers = [node.shape() for node in self.nodes], self._memory.numbers
        self._shape_of = [numbers.setdefault(shape, len(numbers)) for shape in shapes]
        self._counts = Counter(self._shape_of)
        self._shapes = dict(zip(self._shape_of, shapes, strict=True))
        self._class_of = {number: node_class(shape) for number, shape in self._shapes.items()}
        self._members = self._by_class()

    def following(self, nodes: Iterable[Node], *, unknown: int = 0) -> "Fleet":
        """The fleet of the next moment, with the answers about shapes that were there before."""
        crowded = self._memory.crowded(len(self._counts))
        memory = None if crowded else self._memory
        return Fleet(nodes, unknown=unknown, memory=memory, remembered=self._remembered)

    def _by_class(self) -> Mapping[str, frozenset[int]]:
        """The shapes that a class name stands for: by their facts, and by the labels nodes carry now."""
        members: dict[str, set[int]] = {}
        for node, shape in zip(self.nodes, self._shape_of, strict=True):
            members.setdefault(self._class_of[shape], set()).add(shape)
            if node.label is not None:
                members.setdefault(node.label, set()).add(shape)
        return {name: frozenset(members[name]) for name in sorted(members)}

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class name in use, sorted."""
        return tuple(self._members)

    def class_of(self, node: Node) -> str:
        """The class of one of this fleet's nodes, by its facts."""
        return self._class_of[self._memory.numbers[node.shape()]]

    def ask(self, question: Question) -> Iterator[None]:
        """Find out what is not known yet, one shape at each step; `ever` then answers at once.

        A caller that must not be busy for long lets others run between the steps.
        """
        if question in self._surveys:
            return
        answers = self._answers(question)
        for number, shape in self._shapes.items():
            if answers[number] == _UNASKED:
                admitted = evaluate(shape, question.demand, question.intent).admitted
                answers[number] = _YES if admitted else _NO
                yield

    def ever(self, question: Question) -> Survey:
        """Which classes could hold the pod with nothing else on them."""
        return self._surveys.get(question, lambda: self._survey(question))

    def _survey(self, question: Question) -> Survey:
        for _ in self.ask(question):
            pass
        answers = self._answers(question)
        able = {number for number in self._shapes if answers[number] == _YES}
        feasible = {name for name, numbers in self._members.items() if numbers & able}
        return Survey(
            feasible=tuple(name for name in self._members if name in feasible),
            infeasible=tuple(name for name in self._members if name not in feasible),
            able=sum(self._counts[number] for number in able),
            known=len(self.nodes),
            unknown=self.unknown,
        )

    def verdict(self, name: str, question: Question) -> Verdict | None:
        """What one node says as things stand; None for a node whose topology is not known."""
        node = self._named.get(name)
        return evaluate(node, question.demand, question.intent) if node else None

    def why_not(self, question: Question, *, floor: Policy = Policy.BEST_EFFORT) -> str:
        """Why no node could ever take the pod, and what would help; no policy below `floor` is advised.

        Each class speaks through one of its shapes, for they differ by no more than parts of a GiB.
        """
        for _ in self._hear(question):
            pass
        return self._why.get((question, floor), lambda: self._because(question, floor))

    def _because(self, question: Question, floor: Policy) -> str:
        groups = self._groups.get(question, list)
        looser = (policy for policy in _below(question.intent.policy) if policy.at_least(floor))
        helpful = (policy for policy in looser if self.ever(question.with_policy(policy)).able)
        return refusal_text(
            groups,
            question.intent,
            unknown=self.unknown,
            looser=next(helpful, None),
            enough=partial(self._fits_with, question),
        )

    def _fits_with(self, question: Question, container: str, resource: str, amount: int) -> bool:
        """Whether the pod would fit somewhere if it asked for this much."""
        less = asking(question.demand, container, resource, amount)
        examples = self._examples().values()
        return any(evaluate(shape, less, question.intent).admitted for shape in examples)

    def _examples(self) -> dict[str, Node]:
        """One shape of each class."""
        return {self._class_of[number]: shape for number, shape in self._shapes.items()}

    def _hear(self, question: Question) -> Iterator[None]:
        """Find out what each class says, one at each step."""
        if question in self._groups:
            return
        nodes = Counter[str]()
        for number, count in self._counts.items():
            nodes[self._class_of[number]] += count
        groups = []
        for name, shape in self._examples().items():
            groups.append(Group(name, nodes[name], evaluate(shape, question.demand, question.intent)))
            yield
        self._groups.get(question, lambda: groups)

    def look(self, question: Question) -> Iterator[None]:
        """Find out what `now` or, for a pod that fits nowhere, `why_not` says, one node at each step."""
        if question in self._now or question in self._groups:
            return
        yield from self.ask(question)
        if self.ever(question).able:
            yield from self._look_for_room(question)
            return
        for policy in _below(question.intent.policy):
            yield from self.ask(question.with_policy(policy))
        yield from self._hear(question)

    def _look_for_room(self, question: Question) -> Iterator[None]:
        answers = self._answers(question)
        for node, number in zip(self.nodes, self._shape_of, strict=True):
            if answers[number] == _YES:
                yield
                if evaluate(node, question.demand, question.intent).admitted:
                    self._now.get(question, lambda: True)
                    return
        self._now.get(question, lambda: False)

    def now(self, question: Question) -> bool:
        """Whether some node that could ever take the pod could do so as things stand."""
        for _ in self.look(question):
            pass
        return self._now.get(question, lambda: False)

    def _answers(self, question: Question) -> bytearray:
        answers = self._memory.answers.get(question, bytearray)
        answers.extend(bytes(len(self._memory.numbers) - len(answers)))
        return answers


def _below(policy: Policy) -> list[Policy]:
    """The policies that promise something, but less than this one, the tightest first."""
    return [other for other in reversed(Policy) if other is not Policy.NONE and not other.at_least(policy)]
