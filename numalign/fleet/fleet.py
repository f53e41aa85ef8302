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
class _Member:
    """A node, the number of its shape, and the moment since when it has been as it is."""

    node: Node
    shape: int
    since: int


@dataclass(frozen=True, slots=True)
class _Room:
    """What was found when somebody looked for room at a moment: a node that has some, or that none has."""

    at: int
    witness: str | None


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


@dataclass(slots=True)
class Lookout:
    """What was found about room by the moments of one line, and the number of the latest of them."""

    found: Recent[Question, _Room]
    latest: int = 0


@dataclass(frozen=True, slots=True)
class Heritage:
    """What one moment leaves to the next; by default what the first one starts from."""

    memory: Memory
    lookout: Lookout
    at: int = 0
    members: Mapping[str, _Member] = field(default_factory=dict)
    shapes: Mapping[int, Node] = field(default_factory=dict)
    classes: Mapping[int, str] = field(default_factory=dict)


class Fleet:
    """The nodes of one moment.

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
        left = heritage or Heritage(Memory(Recent(remembered)), Lookout(Recent(remembered)))
        self.nodes = tuple(nodes)
        self.unknown = unknown
        self._remembered = remembered
        self._at = left.at
        self._memory = left.memory
        self._lookout = left.lookout
        self._surveys: Recent[Question, Survey] = Recent(remembered)
        self._groups: Recent[Question, list[Group]] = Recent(remembered)
        self._why: Recent[tuple[Question, Policy], str] = Recent(remembered)
        self._shapes: dict[int, Node] = {}
        self._members = [self._member(node, left) for node in self.nodes]
        self._named = {member.node.name: member for member in self._members}
        self._counts = Counter(member.shape for member in self._members)
        self._class_of = {
            number: left.classes.get(number) or node_class(shape) for number, shape in self._shapes.items()
        }
        self._in_class = self._by_class()

    def following(self, nodes: Iterable[Node], *, unknown: int = 0) -> "Fleet":
        """The fleet of the next moment, with the answers about shapes that were there before."""
        crowded = self._memory.crowded(len(self._counts))
        return Fleet(
            nodes,
            unknown=unknown,
            heritage=None if crowded else self._heritage(),
            remembered=self._remembered,
        )

    def _heritage(self) -> Heritage:
        """Only one moment can go on where this one leaves off; another begins to look for room anew."""
        lookout = self._lookout if self._lookout.latest == self._at else Lookout(Recent(self._remembered))
        lookout.latest = self._at + 1
        return Heritage(self._memory, lookout, self._at + 1, self._named, self._shapes, self._class_of)

    def _member(self, node: Node, left: Heritage) -> _Member:
        """The node as a member of this moment; a number and a shape are worked out only for what is new."""
        same = left.members.get(node.name)
        if same and same.node is node:
            self._shapes.setdefault(same.shape, left.shapes[same.shape])
            return same
        shape, numbers = node.shape(), self._memory.numbers
        number = numbers.setdefault(shape, len(numbers))
        self._shapes.setdefault(number, shape)
        return _Member(node, number, self._at)

    def _by_class(self) -> Mapping[str, frozenset[int]]:
        """The shapes that a class name stands for: by their facts, and by the labels nodes carry now."""
        members: dict[str, set[int]] = {}
        for member in self._members:
            members.setdefault(self._class_of[member.shape], set()).add(member.shape)
            if member.node.label is not None:
                members.setdefault(member.node.label, set()).add(member.shape)
        return {name: frozenset(members[name]) for name in sorted(members)}

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class name in use, sorted."""
        return tuple(self._in_class)

    def class_of(self, node: Node) -> str:
        """The class of one of this fleet's nodes, by its facts."""
        found = self._named.get(node.name)
        if found and found.node is node:
            return self._class_of[found.shape]
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
        feasible = {name for name, numbers in self._in_class.items() if numbers & able}
        return Survey(
            feasible=tuple(name for name in self._in_class if name in feasible),
            infeasible=tuple(name for name in self._in_class if name not in feasible),
            able=sum(self._counts[number] for number in able),
            known=len(self.nodes),
            unknown=self.unknown,
        )

    def verdict(self, name: str, question: Question) -> Verdict | None:
        """What one node says as things stand; None for a node whose topology is not known."""
        found = self._named.get(name)
        return evaluate(found.node, question.demand, question.intent) if found else None

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
        if question in self._groups:
            return
        yield from self.ask(question)
        if self.ever(question).able:
            yield from self._look_for_room(question)
            return
        for policy in _below(question.intent.policy):
            yield from self.ask(question.with_policy(policy))
        yield from self._hear(question)

    def now(self, question: Question) -> bool:
        """Whether some node that could ever take the pod could do so as things stand."""
        for _ in self.look(question):
            pass
        found = self._found(question)
        return found is not None and found.witness is not None

    def _look_for_room(self, question: Question) -> Iterator[None]:
        """Only nodes that have changed since somebody looked can tell anything new.

        Answers may have been forgotten since they were asked for: only a no keeps a node from being asked.
        """
        found = self._found(question)
        if found and (found.witness or found.at == self._at):
            return
        answers, since = self._answers(question), found.at if found else -1
        for member in self._members:
            if member.since > since and answers[member.shape] != _NO:
                yield
                if evaluate(member.node, question.demand, question.intent).admitted:
                    self._lookout.found.put(question, _Room(self._at, member.node.name))
                    return
        self._lookout.found.put(question, _Room(self._at, None))

    def _found(self, question: Question) -> _Room | None:
        """What was found at this moment or before it, if that still says anything."""
        found = self._lookout.found.peek(question)
        if found is None or found.at > self._at:
            return None
        if found.witness is None:
            return found
        member = self._named.get(found.witness)
        return found if member and member.since <= found.at else None

    def _answers(self, question: Question) -> bytearray:
        answers = self._memory.answers.get(question, bytearray)
        answers.extend(bytes(len(self._memory.numbers) - len(answers)))
        return answers


def _below(policy: Policy) -> list[Policy]:
    """The policies that promise something, but less than this one, the tightest first."""
    return [other for other in reversed(Policy) if other is not Policy.NONE and not other.at_least(policy)]
