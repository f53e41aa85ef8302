"""
Yes or no to a pod as it would be stored, and what its owner should know.

A refusal says that no node could ever take the pod as it is meant, or that its namespace asks for more. What
merely does not fit now is admitted with a warning. A pod that somebody has already placed is never refused:
its controller would only make it again.
"""

from collections.abc import Iterator

from numalign.fleet import Fleet, Question
from numalign.rules.intent import Policy
from webhook.patch import Pin
from webhook.review import Allowed, Denied, Reason
from webhook.subject import Broken, Subject

SPEAKER = "numalign"
LONGEST_WARNING = 120


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
    """Refuse what no node could ever keep and what a namespace does not let pass; warn of the rest."""
    refusal = None if subject.pin else _refusal(subject, fleet, unknown_may_fit=unknown_may_fit)
    if refusal:
        return Denied(reason=Reason.FORBIDDEN, message=f"{SPEAKER}: {refusal}", audit={"verdict": "denied"})
    warnings = [*_of_namespace(subject), *(_of_nodes(subject, fleet) if subject.asks else ())]
    return Allowed(warnings=tuple(map(_warning, warnings)), audit=_audit(subject))


def _refusal(subject: Subject, fleet: Fleet, *, unknown_may_fit: bool) -> str | None:
    level = subject.rules.enforce
    if level and subject.question.asks_less_than(level):
        return (
            f'namespace "{subject.namespace}" enforces {level}: the pod asks for {_asked(subject)}. '
            f"Set annotation numalign.io/policy to {_choices(level)}."
        )
    if not subject.asks or not fleet.nodes or fleet.ever(subject.question).able:
        return None
    if unknown_may_fit and fleet.unknown:
        return None
    return fleet.why_not(subject.question, floor=level or Policy.BEST_EFFORT)


def _of_namespace(subject: Subject) -> Iterator[str]:
    """What falls short of the namespace; a pod that is placed already falls short of `enforce` too."""
    levels = [subject.rules.enforce if subject.pin else None, subject.rules.warn]
    for level in dict.fromkeys(filter(None, levels)):
        if subject.question.asks_less_than(level):
            yield f"this namespace wants {level}, the pod asks for {_asked(subject)}"


def _of_nodes(subject: Subject, fleet: Fleet) -> Iterator[str]:
    question = subject.question
    if not fleet.nodes:
        yield "no node topology is known, so the pod was not checked"
    elif not question.demand.alignable:
        yield f"{subject.policy} has nothing to align: the pod is {question.demand.qos}, without devices"
    elif subject.pin:
        yield from _of_its_node(subject.pin, question, fleet)
    elif not fleet.ever(question).able:
        yield "no node of known topology could ever take the pod; it waits for one that may"
    elif not fleet.now(question):
        yield f"no node has room for {subject.policy} now; the pod will wait"


def _of_its_node(pin: Pin, question: Question, fleet: Fleet) -> Iterator[str]:
    verdict = fleet.verdict(pin.node, question) if pin.node else None
    if verdict is not None and verdict.refusal:
        when = "can never" if verdict.permanent else "cannot now"
        yield f"its node {pin.node} {when} take it: {verdict.refusal}"


def _audit(subject: Subject) -> dict[str, str]:
    level = subject.rules.audit
    below = f", below {level}" if level and subject.question.asks_less_than(level) else ""
    return {"verdict": f"admitted with {_asked(subject)}{below}"}


def _asked(subject: Subject) -> str:
    return subject.policy if subject.stated else "nothing"


def _choices(level: Policy) -> str:
    return " or ".join(policy for policy in Policy if policy.at_least(level))


def _warning(text: str) -> str:
    whole = f"{SPEAKER}: {text}"
    return whole if len(whole) <= LONGEST_WARNING else f"{whole[: LONGEST_WARNING - 3]}..."
