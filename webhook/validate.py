"""
Yes or no to a pod as it would be stored, and what its owner should know.

Whether it may be admitted is decided in `numalign.cache.admission`; here the decision becomes an answer to
the API server.
"""

from collections.abc import Callable, Iterator

from numalign.cache.admission import LEVELS, AdmissionDecision, invalid_text, policy_word
from numalign.cache.pod_question import PodQuestion
from numalign.decision import wording
from numalign.model.errors import cut
from webhook.review import Allowed, Denied, StatusReason
from webhook.subject import InvalidPod

SPEAKER = "numalign"

LONGEST_WARNING = 120
"""Characters of a warning, as Kubernetes asks of webhooks."""

LONGEST_SHOWN = 256
"""Characters of a refusal that is only a warning, and of what names a place: what is longer, the API server
may cut."""

Decide = Callable[[PodQuestion], AdmissionDecision]
"""Decides about a pod as things stand."""


def refuse_broken(error: InvalidPod) -> Denied:
    """The answer to a pod whose annotations or amounts cannot be read, each mistake at its place."""
    return Denied(
        reason=StatusReason.INVALID,
        message=f"{SPEAKER}: {invalid_text(error.mistakes)}",
        causes=error.mistakes,
        audit={"verdict": "invalid"},
    )


def validate(pod: PodQuestion, decide: Decide) -> Allowed | Denied:
    """Refuse what a namespace does not let pass and what no shape could ever keep; warn of the rest."""
    decision = decide(pod)
    if decision.refusal:
        return Denied(
            reason=StatusReason.FORBIDDEN,
            message=f"{SPEAKER}: {decision.refusal}",
            audit=refused(pod, decision),
        )
    return Allowed(warnings=tuple(warnings(decision)), audit={"verdict": admitted(pod)})


def warnings(decision: AdmissionDecision) -> Iterator[str]:
    """The warnings of a pod that is admitted, as clients show them."""
    if decision.waived:
        yield in_full(wording.first_sentence(decision.waived))
    yield from map(warning, decision.warnings)


def refused(pod: PodQuestion, decision: AdmissionDecision) -> dict[str, str]:
    """What the audit log keeps of a pod that is refused: on what that rests, and what asks for how much."""
    level = {"level": pod.rules.enforce} if pod.rules.enforce else {}
    return {"verdict": "denied", "state": decision.state, "policy": policy_word(pod), **level}


def admitted(pod: PodQuestion) -> str:
    """What the audit log keeps of a pod that passes."""
    level = LEVELS["audit"](pod.rules)
    below = f", below {level}" if level and pod.question.asks_less_than(level) else ""
    return f"admitted with {policy_word(pod)}{below}"


def warning(text: str) -> str:
    """A warning as clients show it, none longer than `LONGEST_WARNING`."""
    return cut(f"{SPEAKER}: {text}", LONGEST_WARNING)


def in_full(text: str) -> str:
    """A warning that cannot be said shortly, as clients show it, none longer than `LONGEST_SHOWN`."""
    return cut(f"{SPEAKER}: {text}", LONGEST_SHOWN)
