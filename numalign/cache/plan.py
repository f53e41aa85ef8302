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
    """What one step asks of the managers of a layout, in the order in which the kubelet asks them.

    `pieces` are devices and then whole CPUs, `memory` is by name in bytes.
    """

    step: Step
    pieces: tuple[tuple[str, int], ...]
    memory: tuple[tuple[str, int], ...]

    @property
    def amounts(self) -> tuple[tuple[str, int], ...]:
        """All of it."""
        return (*self.pieces, *self.memory)

    @property
    def names(self) -> frozenset[str]:
        """The names of all of it."""
        return frozenset(name for name, _ in self.amounts)

    @property
    def only_memory(self) -> "StepRequest":
        """The same without devices and CPUs."""
        return replace(self, pieces=())


@dataclass(frozen=True)
class LayoutPlan:
    """A question on a layout.

    `steps` are the containers that ask for anything, `whole` is all of them. Each of `decisions` is aligned
    as one: a container or, in pod scope, the pod. `refused` says that nothing of this layout takes the pod,
    whatever it has, `unalignable` that no policy beyond best-effort would be kept, and `unsure` that only the
    rules can say.
    """

    layout: Layout
    question: Question
    decisions: tuple[StepRequest, ...]
    steps: tuple[StepRequest, ...]
    whole: StepRequest
    refused: bool
    unalignable: bool
    unsure: bool

    @cached_property
    def as_one(self) -> bool:
        """Whether several containers are aligned as one."""
        return len(self.decisions) < len(self.steps)

    @cached_property
    def kept_by_kubelet(self) -> bool:
        """Whether the kubelet lets nothing in that is not aligned as the pod asks."""
        return nothing_to_keep(self.layout, self.question.intent)

    @cached_property
    def totals(self) -> tuple[tuple[str, int], ...]:
        """What the node as a whole is asked, of everything that the layout lists."""
        listed = self.layout.all_names
        return tuple(item for item in self.question.demand.total.items() if item[0] in listed)

    @cached_property
    def unlisted(self) -> bool:
        """Whether something is asked of nodes that would list it if they had any."""
        absent = self.question.demand.total.keys() - self.layout.all_names - NODE_LEVEL
        return self.layout.totals is not None and bool(absent)


def plan_of(layout: Layout, question: Question, example: Node) -> LayoutPlan:
    """What the question comes to on this layout; `example` is one of its nodes."""
    demand = question.demand
    if demand.by_dra:
        demand = by_plugins(demand, layout.devices)
        question = replace(question, demand=demand)
    requests = tuple(_request(layout, step) for step in demand.steps)
    steps = tuple(request for request in requests if request.amounts)
    together = layout.scope is Scope.POD and layout.policy is not Policy.NONE
    whole = _request(layout, demand.whole)
    memory = {name for request in steps for name, _ in request.memory}
    strictly = replace(question.intent, policy=Policy.RESTRICTED)
    return LayoutPlan(
        layout,
        question,
        decisions=((whole,) if whole.amounts else ()) if together else steps,
        steps=steps,
        whole=whole,
        refused=by_kind(example, demand, question.intent) is not None,
        unalignable=unaligned(example, demand, strictly) is not None,
        unsure=any(_open_ended(layout, request) for request in requests)
        # The pod as a whole asks for other memory than its containers.
        or (together and {name for name, _ in whole.memory} != memory)
        or any(amount >= BOUNDLESS for amount in demand.total.values()),
    )


def _request(layout: Layout, step: Step) -> StepRequest:
    cpus = ((CPU, step.cpu // MILLI),) if step.cpu and layout.gives_out(CPU) else ()
    devices = (item for item in step.devices.items() if item[0] in layout.devices)
    memory = tuple(step.memory.items()) if layout.memory_manager is MemoryManager.STATIC else ()
    return StepRequest(step, (*devices, *cpus), memory)


def _open_ended(layout: Layout, request: StepRequest) -> bool:
    """Whether more than amounts decides.

    What init containers leave to later ones binds these to zones; a device that is named and not asked for
    has hints all the same; and the memory manager looks at a request for nothing.
    """
    step = request.step
    left_over = step.role is Role.INIT and bool(request.amounts)
    named = any(step.devices.get(name) == 0 for name in layout.devices)
    no_memory = step.managed and not step.memory and layout.memory_manager is MemoryManager.STATIC
    return left_over or named or no_memory


def nothing_to_keep(layout: Layout, intent: Intent) -> bool:
    """Whether the intent binds nobody, or the kubelet lets nothing in that does not keep it."""
    alike = intent.scope in (None, layout.scope)
    kept = layout.count == 1 or (alike and layout.policy.at_least(intent.policy))
    return kept or not intent.binding


def concerned(plan: LayoutPlan, request: StepRequest, intent: Intent) -> frozenset[str]:
    """The names of a step's resources that an intent is about and the kubelet aligns."""
    aligned = request.names if plan.layout.policy is not Policy.NONE else frozenset[str]()
    return frozenset(name for name in aligned if intent.concerns(name))
