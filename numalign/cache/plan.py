"""
A question on the nodes of one table, before any amount is compared.

Nodes of a table differ in policy, scope, managers and resources. What follows from that for a question is
computed once for each kind of layout and looked up by row; amounts are then compared for all rows at once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain

import numpy as np

from numalign.cache.arrays import Bools
from numalign.cache.columns import BOUNDLESS, Columns
from numalign.cache.layout import KubeletConfig
from numalign.cache.layout_kinds import LayoutKind, LayoutKinds, Trait
from numalign.cache.node_table import ZoneTable
from numalign.cache.question import Question
from numalign.decision.evaluate import by_kind, unaligned
from numalign.decision.verdict import Refusal
from numalign.model.demand import Demand, Step, by_plugins, with_init_memory
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.resources import CPU, MILLI, NODE_LEVEL, Kind, kind


class Undecided(StrEnum):
    """Why columns leave a question to the rules, on any node."""

    AMOUNTS = "requested-amounts"
    """It requests more than a column holds."""
    DEVICES = "requested-devices"
    """It requests devices of which the node has some between zones or on none."""
    NEIGHBOURS = "neighbours"
    """It and pods on the node have intents, and one of them is exclusive."""


@dataclass(frozen=True, eq=False)
class LayoutPlan:
    """A question on layouts of one kind.

    `refused` is why no such node takes the pod, whatever it has; `example` is one of these nodes.
    """

    kind: LayoutKind
    question: Question
    refused: Refusal | None
    example: Node

    @property
    def config(self) -> KubeletConfig:
        """How these kubelets are configured."""
        return self.kind.config

    @property
    def aligned(self) -> frozenset[str]:
        """The resources for which these kubelets generate hints."""
        return frozenset() if self.config.policy is Policy.NONE else self.kind.given

    @cached_property
    def kept_by_kubelet(self) -> bool:
        """Whether the intent is not binding, or the kubelet admits only what satisfies it."""
        intent = self.question.intent
        if self.kind.single_zone or not intent.binding:
            return True
        return intent.scope in (None, self.config.scope) and self.config.policy.at_least(intent.policy)

    @cached_property
    def unalignable(self) -> bool:
        """Whether no policy beyond best-effort would be satisfied here."""
        strictly = replace(self.question.intent, policy=Policy.RESTRICTED)
        return unaligned(self.example, self.question.demand, strictly) is not None


@dataclass(frozen=True, eq=False)
class StepRequest:
    """What one step requests of the managers of a table's kubelets.

    `amounts` of the `names` are in the unit of columns: devices first, then whole CPUs, then memory. `given`
    is for which kinds of layouts they count: (names, kinds).
    """

    step: Step
    names: tuple[str, ...]
    amounts: tuple[int, ...]
    given: Bools

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Bytes by name."""
        named = zip(self.names, self.amounts, strict=True)
        return {name: amount for name, amount in named if kind(name) is Kind.MEMORY}

    @cached_property
    def everywhere(self) -> bool:
        """Whether all of it counts for all kinds."""
        return bool(self.given.all())

    def only(self, chosen: Collection[str]) -> "StepRequest":
        """Return the same with only these resources."""
        places = [at for at, name in enumerate(self.names) if name in chosen]
        return StepRequest(
            self.step,
            tuple(self.names[at] for at in places),
            tuple(self.amounts[at] for at in places),
            self.given[places],
        )


@dataclass(frozen=True, eq=False)
class TablePlan:
    """A question on those nodes of a table with the same effective demand.

    `every` has the plans by kind of layout; those that are `meant` belong to this plan.
    """

    columns: Columns
    kinds: LayoutKinds
    every: tuple[LayoutPlan, ...]
    meant: Bools

    @cached_property
    def plans(self) -> tuple[tuple[int, LayoutPlan], ...]:
        """The number of each kind that is meant, and its plan."""
        return tuple((at, self.every[at]) for at in np.flatnonzero(self.meant).tolist())

    @cached_property
    def question(self) -> Question:
        """The question to these nodes."""
        return self.plans[0][1].question

    @cached_property
    def undecided(self) -> Undecided | None:
        """Why only the rules can decide."""
        demand = self.question.demand
        if any(amount >= BOUNDLESS for amount in demand.total.values()):
            return Undecided.AMOUNTS
        return Undecided.DEVICES if any(plan.kind.unplaced for _, plan in self.plans) else None

    @cached_property
    def steps(self) -> tuple[StepRequest, ...]:
        """The containers in the kubelet's order, including those that request nothing here."""
        return tuple(self._request(step) for step in self.question.demand.steps)

    @cached_property
    def whole(self) -> StepRequest:
        """The pod as a whole."""
        return self._request(self.question.demand.whole)

    @cached_property
    def only_step(self) -> StepRequest | None:
        """The single container with requests to the managers, if amounts decide its result."""
        asking = [request for request in self.steps if any(request.amounts)]
        if len(asking) > 1 or any(map(self.hinted_for_nothing, self.steps)):
            return None
        return asking[0] if asking else self.whole

    def hinted_for_nothing(self, request: StepRequest) -> bool:
        """Return whether there are hints for an amount of zero: a named device, or no memory."""
        step = request.step
        named = any(amount == 0 and self.kinds.given(name).any() for name, amount in step.devices.items())
        empty = step.managed and not step.memory
        return named or (empty and bool(self.kinds.trait(Trait.KEEPS_MEMORY).any()))

    def _request(self, step: Step) -> StepRequest:
        asked = {**step.devices, **({CPU: step.cpu // MILLI} if step.cpu else {}), **step.memory}
        given = {name: self.kinds.given(name) for name in asked}
        names = tuple(name for name in asked if given[name].any())
        return StepRequest(
            step,
            names,
            tuple(asked[name] for name in names),
            np.array([given[name] for name in names], dtype=np.bool_).reshape(len(names), len(self.every)),
        )

    @cached_property
    def totals(self) -> tuple[tuple[str, int], ...]:
        """The requests of the node as a whole, for everything that some node of the table lists."""
        total = self.question.demand.total
        return tuple(item for item in total.items() if self.columns.has_total(item[0]))

    @cached_property
    def unlisted(self) -> tuple[str, ...]:
        """Requested resources that no node of the table lists, though it would if it had any."""
        asked = self.question.demand.total
        return tuple(name for name in asked if not self.columns.has_total(name) and name not in NODE_LEVEL)

    @cached_property
    def refused(self) -> tuple[bool, ...]:
        """Which kinds take no such pod, whatever they have."""
        return tuple([plan.refused is not None for plan in self.every])

    @cached_property
    def kept_by_kubelet(self) -> tuple[bool, ...]:
        """For which kinds nothing has to be checked after the kubelet admits the pod."""
        return tuple([plan.kept_by_kubelet for plan in self.every])


def concerned(plan: LayoutPlan, step: Step, intent: Intent) -> frozenset[str]:
    """Return the names of a step's resources that an intent concerns and these kubelets align."""
    return frozenset(name for name in step.requests if name in plan.aligned and intent.concerns(name))


class Plans:
    """The plans of one question, table by table; kinds of layouts that tables share are planned once."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._asked = _names(question.demand)
        self._plans: dict[LayoutKind, LayoutPlan] = {}
        self._tables: dict[ZoneTable, tuple[LayoutKinds, tuple[TablePlan, ...]]] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def of(self, table: ZoneTable) -> tuple[TablePlan, ...]:
        """Return the plans of a table, each for some of its layouts."""
        kinds, kept = table.kinds(self._asked), self._tables.get(table)
        if kept is None or kept[0] is not kinds:
            kept = self._tables[table] = kinds, self._planned(table.columns, kinds)
        return kept[1]

    def _planned(self, columns: Columns, kinds: LayoutKinds) -> tuple[TablePlan, ...]:
        every = tuple(map(self._plan, kinds.kinds, kinds.examples))
        plan = TablePlan(columns, kinds, every, np.ones(len(every), dtype=np.bool_))
        return tuple(_split(plan))

    def _plan(self, kind: LayoutKind, example: Node) -> LayoutPlan:
        if kind not in self._plans:
            question = self._effective_question(kind)
            refused = by_kind(example, question.demand, question.intent)
            self._plans[kind] = LayoutPlan(kind, question, refused, example)
        return self._plans[kind]

    def _effective_question(self, kind: LayoutKind) -> Question:
        """Return the question to such kubelets; equal questions are one object."""
        question = self._question
        demand = by_plugins(question.demand, kind.devices | kind.uncertain)
        demand = with_init_memory(demand) if kind.config.init_memory else demand
        if demand is question.demand:
            return question
        effective = replace(question, demand=demand)
        return next((plan.question for plan in self._plans.values() if plan.question == effective), effective)


def _split(plan: TablePlan) -> Iterator[TablePlan]:
    """Yield the same by demand, and by whether columns cover all requests."""
    keys = [(id(each.question), bool(each.kind.unplaced)) for each in plan.every]
    for key in dict.fromkeys(keys):
        yield replace(plan, meant=np.array([each == key for each in keys]))


def _names(demand: Demand) -> frozenset[str]:
    """Return all resources that any container requests or names."""
    cpu = [CPU] if demand.whole.cpu else []
    steps = (demand.whole, *demand.steps)
    return frozenset(chain(cpu, *((*step.memory, *step.devices) for step in steps)))
