"""
Allow or deny a pod as it would be stored, and warn its owner.

`numalign.cache.admission` decides; this module turns the decision into a response to the API server.
"""

from collections.abc import Callable, Iterator

from numalign.cache.admission import LEVELS, AdmissionDecision, invalid_text, left_out_text, policy_text
from numalign.cache.pod_question import PodQuestion
from numalign.decision import wording
from numalign.model.errors import cut
from webhook.review import Allowed, Denied, StatusReason
from webhook.subject import InvalidPod

MESSAGE_PREFIX = "numalign"

LONGEST_WARNING = 120
"""Most characters of a warning, as Kubernetes recommends for webhooks."""

LONGEST_SHOWN = 256
"""Most characters of a denial that is shown as a warning, and of a warning with a location; the API server
may cut longer ones."""

Decide = Callable[[PodQuestion], AdmissionDecision]
"""Decides about a pod in the current state."""


def refuse_broken(error: InvalidPod) -> Denied:
    """Return the denial of a pod whose annotations or amounts are invalid, with the field of each mistake."""
    return Denied(
        reason=StatusReason.INVALID,
        message=f"{MESSAGE_PREFIX}: {invalid_text(error.mistakes)}",
        causes=error.mistakes,
        audit={"verdict": "invalid"},
    )


def validate(pod: PodQuestion, decide: Decide) -> Allowed | Denied:
    """Deny what the namespace does not admit or no shape could ever align; warn about the rest."""
    decision = decide(pod)
    if decision.refusal:
        return Denied(
            reason=StatusReason.FORBIDDEN,
            message=f"{MESSAGE_PREFIX}: {decision.refusal}",
            audit=refused(pod, decision),
        )
    return Allowed(warnings=tuple(warnings(decision)), audit={"verdict": admitted(pod)})


def warnings(decision: AdmissionDecision) -> Iterator[str]:
    """Yield the warnings of an admitted pod, as clients show them."""
    if decision.waived:
        yield long_warning(wording.first_sentence(decision.waived))
    yield from map(warning, decision.warnings)
    if decision.unpinned:
        yield long_warning(decision.unpinned)


def refused(pod: PodQuestion, decision: AdmissionDecision) -> dict[str, str]:
    """Return the audit annotations of a denied pod: the basis of the decision, its policy and the level."""
    level = {"level": pod.rules.enforce} if pod.rules.enforce else {}
    return {"verdict": "denied", "state": decision.state, "policy": policy_text(pod), **level}


def admitted(pod: PodQuestion) -> str:
    """Return the audit annotation of an admitted pod."""
    level = LEVELS["audit"](pod.rules)
    if not level or not pod.requests_less_than(level):
        return f"admitted with {policy_text(pod)}"
    missing = left_out_text(pod, level)
    return f"admitted with {policy_text(pod)}, below {level}{f': {missing}' if missing else ''}"


def warning(text: str) -> str:
    """Return a warning as clients show it, at most `LONGEST_WARNING` characters long."""
    return cut(f"{MESSAGE_PREFIX}: {text}", LONGEST_WARNING)


def long_warning(text: str) -> str:
    """Return a warning that needs more room, as clients show it, at most `LONGEST_SHOWN` characters long."""
    return cut(f"{MESSAGE_PREFIX}: {text}", LONGEST_SHOWN)
