"""
What one pod asks of the nodes, its namespace heard.

Explaining, checking and the demo must not read a pod in three ways. The intent is the pod's own, else its
namespace's default; where a namespace has opted out, nobody asks for anything, not even by mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numalign.cluster.world import Snapshot
from numalign.fleet import Fleet, Question
from numalign.rules import demand, intent
from numalign.rules.demand import Demand
from numalign.rules.evaluate import NO_INTENT
from numalign.rules.intent import UNRULED, Intent, Match, NamespaceRules, Policy
from numalign.rules.pod import Pod
from numalign.shapes import KnownShape


class By(StrEnum):
    """Who asks for alignment."""

    POD = "pod"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What questions are answered from.

    `unknown` names the nodes that publish no topology, `shapes` are all that are known.
    """

    fleet: Fleet
    unknown: tuple[str, ...] = ()
    shapes: tuple[KnownShape, ...] = ()
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """One pod, read. `intent` is None where nobody asks for alignment."""

    pod: Pod
    demand: Demand
    intent: Intent | None
    by: By | None
    rules: NamespaceRules

    @property
    def question(self) -> Question:
        """The same for all pods of one template."""
        return Question(self.demand, self.intent or NO_INTENT)

    @property
    def below(self) -> Policy | None:
        """What the namespace enforces, where the pod asks for less; such a pod is denied."""
        level = self.rules.enforce
        return level if level and self.question.asks_less_than(level) else None


def cluster(found: Snapshot) -> Cluster:
    """The nodes of a snapshot, ready to be asked."""
    fleet = Fleet(found.nodes, unknown=len(found.unknown))
    return Cluster(fleet, found.unknown, found.shapes, found.namespaces)


def ask(pod: Pod, namespaces: Mapping[str, NamespaceRules], *, match: Match = Match.SATISFIES) -> Asked:
    """Read what a pod asks; raises `BadIntent` with every mistake in its annotations."""
    rules = namespaces.get(pod.namespace, UNRULED)
    asked = demand.of(pod)
    if rules.disabled:
        return Asked(pod, asked, None, None, NamespaceRules(disabled=True))
    stated = intent.read(pod.annotations).intent(rules.default, match)
    own = {intent.POLICY, intent.VOLCANO_POLICY} & pod.annotations.keys()
    by = (By.POD if own else By.NAMESPACE) if stated else None
    return Asked(pod, asked, stated, by, rules)
