"""
All nodes of one moment, asked together.

A cluster has thousands of nodes but few kinds of machines, and a controller makes thousands of pods from one
template. So a verdict on what could *ever* be is given once per shape of node and question, and outlives the
snapshot: it can only change when a node's shape does. What fits *now* is asked node by node, and remembered
for this moment only.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from numalign.fleet.survey import Group, Survey, refusal_text
from numalign.rules.demand import Demand
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import Intent, Policy
from numalign.rules.topology import Node, node_class
from numalign.rules.verdict import Cause, Verdict

REMEMBERED = 4096
"""Questions whose answers are kept; the least recently asked goes first. One byte a shape, so megabytes."""

_UNASKED, _NO, _YES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Question:
    """What one pod asks of every node; equal for all pods of one template."""

    demand: Demand
    intent: Intent


class Fleet:
    """The nodes of one moment.

    Build the next moment with `following`, which keeps every answer that still holds. Not safe to share
    between threads.
    """

    def __init__(self, nodes: Iterable[Node], *, unknown: int = 0) -> None:
        self._begin(nodes, unknown, {}, OrderedDict())

    def following(self, nodes: Iterable[Node], *, unknown: int = 0) -> "Fleet":
        """The fleet of the next moment, with the answers about shapes that were there before."""
        fleet = Fleet.__new__(Fleet)
        crowded = len(self._ids) > 4 * max(len(self._counts), 256)
        kept: tuple[dict[Node, int], OrderedDict[Question, bytearray]] = (
            ({}, OrderedDict()) if crowded else (dict(self._ids), self._ever)
        )
        fleet._begin(nodes, unknown, *kept)  # noqa: SLF001  its own class
        return fleet

    def _begin(
        self,
        nodes: Iterable[Node],
        unknown: int,
        ids: dict[Node, int],
        ever: "OrderedDict[Question, bytearray]",
    ) -> None:
        self.nodes = tuple(nodes)
        self.unknown = unknown
        self._ids = ids
        self._ever = ever
        self._now: dict[Question, bool] = {}
        self._why: dict[Question, str] = {}
        shapes = [node.shape() for node in self.nodes]
        self._shape_of = [ids.setdefault(shape, len(ids)) for shape in shapes]
        self._counts = Counter(self._shape_of)
        self._shapes = dict(zip(self._shape_of, shapes, strict=True))
        self._class_of = {shape: node_class(node) for shape, node in self._shapes.items()}
        self._members = self._by_class()

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
        return self._class_of[self._ids[node.shape()]]

    def ask(self, question: Question) -> Iterator[None]:
        """Find out what is not known yet, one shape at each step; `ever` then answers at once.

        A caller that must not be busy for long lets others run between the steps.
        """
        answers = self._answers(question)
        for number, shape in self._shapes.items():
            if answers[number] == _UNASKED:
                admitted = evaluate(shape, question.demand, question.intent).admitted
                answers[number] = _YES if admitted else _NO
                yield

    def ever(self, question: Question) -> Survey:
        """Which classes could hold the pod with nothing else on them."""
        for _ in self.ask(question):
            pass
        answers = self._answers(question)
        able = {shape for shape in self._shapes if answers[shape] == _YES}
        feasible = {name for name, shapes in self._members.items() if shapes & able}
        return Survey(
            feasible=tuple(name for name in self._members if name in feasible),
            infeasible=tuple(name for name in self._members if name not in feasible),
            able=sum(self._counts[shape] for shape in able),
            known=len(self.nodes),
            unknown=self.unknown,
        )

    def groups(self, question: Question) -> list[Group]:
        """What the nodes say while empty: one group for each class and answer, by class."""
        found: dict[tuple[str, Cause | None], Group] = {}
        for number, shape in self._shapes.items():
            verdict = evaluate(shape, question.demand, question.intent)
            key = (self._class_of[number], verdict.refusal.cause if verdict.refusal else None)
            group = found.get(key, Group(key[0], 0, verdict))
            found[key] = replace(group, nodes=group.nodes + self._counts[number])
        return sorted(found.values(), key=lambda group: group.node_class)

    def verdict(self, name: str, question: Question) -> Verdict | None:
        """What one node says as things stand; None for a node whose topology is not known."""
        node = next((node for node in self.nodes if node.name == name), None)
        return evaluate(node, question.demand, question.intent) if node else None

    def why_not(self, question: Question, *, floor: Policy = Policy.BEST_EFFORT) -> str:
        """Why no node could ever take the pod, and what would help; no policy below `floor` is advised.

        Each class speaks through one of its shapes, for they differ by no more than parts of a GiB.
        """
        if question not in self._why:
            examples = {self._class_of[number]: number for number in self._shapes}
            groups = [
                Group(
                    name,
                    self._nodes_of(name),
                    evaluate(self._shapes[number], question.demand, question.intent),
                )
                for name, number in examples.items()
            ]
            looser = [policy for policy in self._looser(question) if policy.at_least(floor)]
            self._why[question] = refusal_text(groups, question.intent, unknown=self.unknown, looser=looser)
        return self._why[question]

    def _nodes_of(self, name: str) -> int:
        return sum(self._counts[number] for number, of in self._class_of.items() if of == name)

    def _looser(self, question: Question) -> Iterator[Policy]:
        """The tightest policy below the one that was asked for with which some node could take the pod."""
        for policy in reversed(Policy):
            if policy is not Policy.NONE and not policy.at_least(question.intent.policy):
                intent = replace(question.intent, policy=policy)
                if self.ever(replace(question, intent=intent)).able:
                    yield policy
                    return

    def look(self, question: Question) -> Iterator[None]:
        """Find out whether some node could take the pod now, one node at each step."""
        yield from self.ask(question)
        if question in self._now:
            return
        answers = self._answers(question)
        for node, shape in zip(self.nodes, self._shape_of, strict=True):
            if answers[shape] == _YES:
                yield
                if evaluate(node, question.demand, question.intent).admitted:
                    self._now[question] = True
                    return
        self._now[question] = False

    def now(self, question: Question) -> bool:
        """Whether some node could take the pod as things stand."""
        for _ in self.look(question):
            pass
        return self._now[question]

    def _answers(self, question: Question) -> bytearray:
        answers = self._ever.setdefault(question, bytearray())
        self._ever.move_to_end(question)
        answers.extend(bytes(len(self._ids) - len(answers)))
        while len(self._ever) > REMEMBERED:
            self._ever.popitem(last=False)
        return answers
