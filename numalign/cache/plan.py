"""
What a question comes to on all nodes of one layout, before any amount is looked at.

Which containers ask for something that these kubelets give out, what is decided as one, and what is refused
whatever the amounts. Where amounts by zone would not be enough to tell what happens, the plan says so, and
the rules are asked node by node.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from numalign.cache.layout import Layout
from numalign.cache.question import Question
from numalign.decision.evaluate import by_kind, unaligned
from numalign.model.demand import Step, by_plugins
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import MemoryManager, Node
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI, NODE_LEVEL

BOUNDLESS = 2**62
"""More than any node has; what nobody told of is taken for so much."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What one step asks of the managers of a layout: devices, whole CPUs, and memory by name in bytes."""

    step: Step
    devices: tuple[tuple[str, int], ...]
    cpus: tuple[tuple[str, int], ...]
    memory: tuple[tuple[str, int], ...]

    @property
    def amounts(self) -> tuple[tuple[str, int], ...]:
        """All of it, in the order in which the kubelet's managers are asked."""
        return (*self.devices, *self.cpus, *self.memory)

    @property
    def names(self) -> frozenset[str]:
        """The names of all of it."""
        return frozenset(name for name, _ in self.amounts)


@dataclass(frozen=True)
class LayoutPlan:
    """A question on a layout.

    `steps` are the containers that ask for anything, `whole` is all of them. Each of `decisions` is aligned
    as one: a container or, in pod scope, the pod. `refused` says that nothing of this layout takes the pod,
    whatever it has, `broken` that no promise of alignment would be kept, and `unsure` that only the
    rules can say.
    """

    layout: Layout
    question: Question
    decisions: tuple[StepRequest, ...]
    steps: tuple[StepRequest, ...]
    whole: StepRequest
    refused: bool
    broken: bool
    unsure: bool

    @cached_property
    def as_one(self) -> bool:
        """Whether several containers are aligned as one."""
        return len(self.decisions) < len(self.steps)

    @cached_property
    def kept_anyway(self) -> bool:
        """Whether the pod means nothing that the kubelet would not see to by itself."""
        return nothing_to_keep(self.layout, self.question.intent)

    @cached_property
    def totals(self) -> tuple[tuple[str, int], ...]:
        """What the node as a whole is asked, of everything that it tells."""
        told = {*self.layout.names, *(self.layout.totals or ())}
        return tuple(item for item in self.question.demand.total.items() if item[0] in told)

    @cached_property
    def unheard(self) -> bool:
        """Whether something is asked of nodes that would tell if they had any."""
        told = {*self.layout.names, *(self.layout.totals or ())}
        asked = self.question.demand.total.keys() - told - NODE_LEVEL
        return self.layout.totals is not None and bool(asked)


def plan_of(layout: Layout, question: Question, example: Node) -> LayoutPlan:
    """What the question comes to on this layout; `example` is one of its nodes."""
    demand = question.demand
    if demand.by_dra:
        demand = by_plugins(demand, layout.devices)
        question = replace(question, demand=demand)
    asked = tuple(_asked(layout, step) for step in demand.steps)
    steps = tuple(each for each in asked if each.amounts)
    together = layout.scope is Scope.POD and layout.policy is not Policy.NONE
    whole = _asked(layout, demand.whole)
    return LayoutPlan(
        layout,
        question,
        decisions=((whole,) if whole.amounts else ()) if together else steps,
        steps=steps,
        whole=whole,
        refused=by_kind(example, demand, question.intent) is not None,
        broken=unaligned(example, demand, replace(question.intent, policy=Policy.RESTRICTED)) is not None,
        unsure=any(_open_ended(layout, each) for each in asked)
        or (together and _differs(whole, steps))
        or any(amount >= BOUNDLESS for amount in demand.total.values()),
    )


def _asked(layout: Layout, step: Step) -> StepRequest:
    cpus = ((CPU, step.cpu // MILLI),) if step.cpu and layout.gives_out(CPU) else ()
    devices = tuple(item for item in step.devices.items() if item[0] in layout.devices)
    memory = tuple(step.memory.items()) if layout.memory_manager is MemoryManager.STATIC else ()
    return StepRequest(step, devices, cpus, memory)


def _open_ended(layout: Layout, asked: StepRequest) -> bool:
    """Whether more than amounts decides.

    What init containers leave to later ones binds these to zones; a device that is named and not asked for
    has hints all the same; and the memory manager looks at a request for nothing.
    """
    left_over = asked.step.role is Role.INIT and bool(asked.amounts)
    named = any(amount == 0 for _, amount in asked.devices)
    looked_at = asked.step.managed and not asked.step.memory
    return left_over or named or (looked_at and layout.memory_manager is MemoryManager.STATIC)


def _differs(whole: StepRequest, steps: tuple[StepRequest, ...]) -> bool:
    """Whether the pod as a whole asks for other memory than its containers."""
    return {name for name, _ in whole.memory} != {name for each in steps for name, _ in each.memory}


def nothing_to_keep(layout: Layout, intent: Intent) -> bool:
    """Whether nothing is meant, or the kubelet lets nothing in that is not as it is meant to be."""
    alike = intent.scope in (None, layout.scope)
    kept = layout.count == 1 or (alike and layout.policy.at_least(intent.policy))
    return kept or not intent.binding


def concerned(plan: LayoutPlan, asked: StepRequest, intent: Intent) -> frozenset[str]:
    """What of a step's resources an intent is about and the kubelet aligns."""
    aligned = asked.names if plan.layout.policy is not Policy.NONE else frozenset[str]()
    return frozenset(name for name in aligned if intent.concerns(name))
