"""
Why a node cannot take a pod, as the scheduler shows it.

kube-scheduler counts nodes by the text of their reason and prints `0/40 nodes are available: 12 node(s) ...`
(k8s.io/kubernetes, pkg/scheduler/framework/types.go, FitError). So a text says what is asked and what kind of
no it is, never what this very node has left: forty nodes with forty texts would tell nobody anything.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType

from numalign.rules.errors import cut
from numalign.rules.resources import render
from numalign.rules.verdict import Cause, Need, Refusal, Verdict

UNKNOWN = "node(s) publish no NUMA topology, and the pod asks to be aligned (numalign)"
"""Of a node that nobody knows, for a pod that must be aligned."""

WAITING = "node(s) are still taking in pods that were bound before (numalign)"
"""Of a node where it is open which pod comes first."""


LONGEST = 400
"""Characters of what a reason says: it goes out once for each node, and a pod may name thousands."""

MOST_NEEDS = 16
"""Resources that are named in one."""


def reason(verdict: Verdict) -> str:
    """The reason of a refusal; raises `ValueError` for a verdict that is none."""
    refusal = verdict.refusal
    if refusal is None:
        raise ValueError("the pod is admitted: there is no reason against it")
    when = "ever" if verdict.permanent else "now"
    return f"node(s) {cut(_TEXTS[refusal.cause](refusal, when), LONGEST)} (numalign: {refusal.policy})"


def _apart(refusal: Refusal, when: str) -> str:
    never = {"ever": "could never give", "now": "have not got"}[when]
    free = {"ever": "", "now": " free"}[when]
    return f"{never} {_asked(refusal.needs)}{free} in {_zones(refusal.needs)}"


def _too_small(refusal: Refusal, _when: str) -> str:
    return f"are too small for {_asked(refusal.needs)}"


def _widths(refusal: Refusal, _when: str) -> str:
    return f"cannot give {_asked(refusal.needs)} from the same zones"


def _allocated(refusal: Refusal, when: str) -> str:
    return f"could not allocate {_asked(refusal.needs)}{_now(when)}"


def _cores(refusal: Refusal, when: str) -> str:
    return f"give out whole cores only and cannot give {_asked(refusal.needs)}{_now(when)}"


def _shared(refusal: Refusal, _when: str) -> str:
    return f"would leave no {_names(refusal.needs)} to the pod's other containers"


def _exclusive(refusal: Refusal, _when: str) -> str:
    return f"give no {_names(refusal.needs)} of its own to this pod"


def _unaligned(_refusal: Refusal, _when: str) -> str:
    return "have a kubelet that does not align what the pod asks to be aligned"


def _other(_refusal: Refusal, _when: str) -> str:
    return "have another topology policy than the pod asks for"


def _unanswered(_refusal: Refusal, _when: str) -> str:
    return "have so many zones that it takes too long to work out what becomes of the pod"


def _now(when: str) -> str:
    return {"ever": "", "now": " now"}[when]


def _asked(needs: Iterable[Need]) -> str:
    return _all(f"{render(need.resource, need.asked)} {need.resource}" for need in needs)


def _names(needs: Iterable[Need]) -> str:
    return _all(need.resource for need in needs)


def _all(words: Iterable[str]) -> str:
    """The first of these words; that there are others is said by the next."""
    first = [*islice(words, MOST_NEEDS + 1)]
    return " and ".join([*first[:MOST_NEEDS], *(["more"] if len(first) > MOST_NEEDS else [])])


def _zones(needs: Iterable[Need]) -> str:
    widest = max((need.zones for need in needs), default=1)
    return "one zone" if widest == 1 else f"{widest} zones"


_TEXTS: Mapping[Cause, Callable[[Refusal, str], str]] = MappingProxyType(
    {
        Cause.NODE_TOO_SMALL: _too_small,
        Cause.ZONES_TOO_SMALL: _apart,
        Cause.WIDTHS_DIFFER: _widths,
        Cause.NOT_TOGETHER: _apart,
        Cause.SPREAD: _apart,
        Cause.NOT_ALLOCATED: _allocated,
        Cause.NOT_WHOLE_CORES: _cores,
        Cause.NOTHING_TO_SHARE: _shared,
        Cause.NOT_EXCLUSIVE: _exclusive,
        Cause.NOT_ALIGNED: _unaligned,
        Cause.OTHER_POLICY: _other,
        Cause.NOT_ANSWERED: _unanswered,
    }
)
