"""
Yes or no to a pod as it would be stored, and what its owner should know.

A refusal says that no node could ever take the pod as it is meant, or that its namespace asks for more. What
merely does not fit now is admitted with a warning. A pod that somebody has already placed is not refused for
its node: its controller would only make it again.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from numalign.fleet import Fleet, Question
from numalign.fleet.pod_question import Pin
from numalign.rules import wording
from numalign.rules.intent import RESOURCES, NamespaceRules, Policy
from webhook.review import Allowed, Denied, Reason
from webhook.subject import Broken, Subject

SPEAKER = "numalign"
LONGEST_WARNING = 120

LEVELS: Mapping[str, Callable[[NamespaceRules], Policy | None]] = MappingProxyType(
    {
        "enforce": lambda rules: rules.enforce,
        "warn": lambda rules: rules.warn,
        "audit": lambda rules: rules.audit,
    }
)
"""What a namespace can ask of every pod in it, by name."""


def shortfalls(rules: NamespaceRules, question: Question) -> tuple[str, ...]:
    """The names of the levels that a pod falls short of."""
    levels = {name: level for name, of in LEVELS.items() if (level := of(rules))}
    return tuple(name for name, level in levels.items() if question.asks_less_than(level))


def refuse_broken(error: Broken) -> Denied:
    """The answer to a pod whose annotations or amounts cannot be read, each mistake at its place."""
    first, *others = error.mistakes
    more = f" (and {len(others)} more)" if others else ""
    return Denied(
        reason=Reason.INVALID,
        message=f"{SPEAKER}: {first.where}: {first.message}{more}",
        causes=error.mistakes,
        audit={"verdict": "invalid"},
    )


def validate(subject: Subject, fleet: Fleet, *, unknown_may_fit: bool) -> Allowed | Denied:
    """Refuse what a namespace does not let pass and what no node could ever keep; warn of the rest."""
    refusal = _by_namespace(subject) or _by_nodes(subject, fleet, unknown_may_fit=unknown_may_fit)
    if refusal:
        return Denied(reason=Reason.FORBIDDEN, message=f"{SPEAKER}: {refusal}", audit={"verdict": "denied"})
    warnings = [*_of_namespace(subject), *(_of_nodes(subject, fleet) if subject.asks else ())]
    return Allowed(warnings=tuple(map(warning, warnings)), audit={"verdict": admitted(subject)})


def _by_namespace(subject: Subject) -> str | None:
    """A namespace means every pod in it, whoever placed it."""
    level = subject.rules.enforce
    if level is None or not subject.question.asks_less_than(level):
        return None
    return wording.enforcement_text(subject.namespace, level, subject.policy if subject.stated else None)


def _by_nodes(subject: Subject, fleet: Fleet, *, unknown_may_fit: bool) -> str | None:
    """A pod that is placed already is not refused: its controller would only make it again."""
    if subject.pin or not subject.asks or not fleet.nodes or fleet.ever(subject.question).feasible:
        return None
    if unknown_may_fit and fleet.unknown:
        return None
    return fleet.why_not(subject.question, floor=subject.rules.enforce or Policy.BEST_EFFORT)


def _of_namespace(subject: Subject) -> Iterator[str]:
    level = subject.rules.warn
    if level and subject.question.asks_less_than(level):
        yield f"this namespace wants {level}, the pod asks for {asked(subject)}"


def _of_nodes(subject: Subject, fleet: Fleet) -> Iterator[str]:
    question = subject.question
    if subject.excess:
        yield f"the pod is left as it is: {subject.excess}"
    if not fleet.nodes:
        yield "no node topology is known, so the pod was not checked"
    elif vain := in_vain(subject):
        yield vain
    elif subject.pin:
        yield from _of_its_node(subject.pin, question, fleet)
    elif not fleet.ever(question).able:
        yield "no node of known topology could ever take the pod; it waits for one that may"
    else:
        if not fleet.now(question):
            yield f"no node has room for {subject.policy} now; the pod will wait"
        yield from not_answered(question, fleet)


def not_answered(question: Question, fleet: Fleet) -> Iterator[str]:
    """Nodes that say nothing to so many containers; the pod may fit there all the same."""
    nodes, count = fleet.ever(question).unanswered, len(question.demand.steps)
    if nodes:
        who = "1 node was" if nodes == 1 else f"{nodes} nodes were"
        what = "1 container" if count == 1 else f"{count} containers"
        yield f"{who} not asked: what becomes of {what} there takes too long to work out"


def _of_its_node(pin: Pin, question: Question, fleet: Fleet) -> Iterator[str]:
    if pin.node is None:
        if not fleet.ever(question).able:
            yield f"{pin.why}, but no node could ever take it"
        return
    verdict = fleet.verdict(pin.node, question)
    if verdict is not None and not verdict.answered:
        yield f"its node {pin.node} was not asked: it {wording.of_node(verdict)}"
    elif verdict is not None and verdict.refusal:
        when = "ever" if verdict.permanent else "now"
        yield f"its node {pin.node} cannot take it {when}: it {wording.of_node(verdict)}"


def in_vain(subject: Subject) -> str | None:
    """Why what a pod asks for means nothing; None, if it means something."""
    question = subject.question
    if not question.demand.alignable:
        return f"{subject.policy} has nothing to align: the pod is {question.demand.qos}, without devices"
    return (
        None if question.concerned else f"{RESOURCES} names nothing that a kubelet could align for this pod"
    )


def admitted(subject: Subject) -> str:
    """What the audit log keeps of a pod that passes."""
    level = subject.rules.audit
    below = f", below {level}" if level and subject.question.asks_less_than(level) else ""
    return f"admitted with {asked(subject)}{below}"


def asked(subject: Subject) -> str:
    """What the pod asks for, in a word."""
    return subject.policy if subject.stated else "nothing"


def warning(text: str) -> str:
    """A warning as clients show it, none longer than `LONGEST_WARNING`."""
    whole = f"{SPEAKER}: {text}"
    return whole if len(whole) <= LONGEST_WARNING else f"{whole[: LONGEST_WARNING - 3]}..."
