"""What would let an empty node admit a pod that only nodes in use may take."""

from dataclasses import replace
from functools import reduce

from numalign.decision import wording
from numalign.decision.evaluate import evaluate
from numalign.kubelet import work_limit
from numalign.model.demand import Demand, with_request
from numalign.model.errors import cut
from numalign.model.intent import Intent, Scope
from numalign.model.node import Node
from numalign.model.pod import Role
from numalign.model.resources import CPU, MILLI

# A warning of 120 characters has room for it.
_LONGEST_NAME = 27
_MOST_TRIED = 3


def why_not_when_empty(node: Node, demand: Demand, intent: Intent) -> tuple[str, ...]:
    """Return as warnings why the empty `node` refuses a pod that it may take when in use, and what helps."""
    # The reason and the remedies are left out for a pod that takes long to evaluate.
    if work_limit.units(node, demand) > work_limit.LIMIT_AT_ONCE // (1 + _MOST_TRIED):
        return (wording.NOT_WHEN_EMPTY,)
    return wording.not_when_empty(evaluate(node, demand, intent), remedies(node, demand, intent))


def remedies(node: Node, demand: Demand, intent: Intent) -> tuple[str, ...]:
    """Return what would help on the healthy, empty `node`, each as a clause after "if", and evaluated."""
    changes: list[tuple[str, Node, Demand]] = []
    pinned = [step.container for step in demand.steps if step.role is Role.INIT and step.cpu]
    if pinned and not intent.names(CPU):
        changed = reduce(lambda before, name: with_request(before, name, CPU, MILLI // 2), pinned, demand)
        changes += [(f"{_named(Role.INIT, pinned[0])} requested no whole number of CPUs", node, changed)]
    apps = [step for step in demand.steps if step.role is Role.APP]
    largest_first = sorted(
        apps, key=lambda step: (sum(step.devices.values()), step.cpu, sum(step.memory.values())), reverse=True
    )
    if largest_first != apps:
        others = [step for step in demand.steps if step.role is not Role.APP]
        words = f"{_named(Role.APP, largest_first[0].container)} was listed first"
        changes += [(words, node, replace(demand, steps=(*others, *largest_first)))]
    if node.scope is Scope.CONTAINER:
        changes += [('the Topology Manager scope was "pod"', replace(node, scope=Scope.POD), demand)]
    return tuple(words for words, where, changed in changes if evaluate(where, changed, intent).admitted)


def _named(role: Role, name: str) -> str:
    return f'{role} "{cut(name, _LONGEST_NAME)}"'
