"""Which nodes of a call take a pod, and why the others do not, as kube-scheduler's filter is answered."""

from numalign.cache.batch import UNKNOWN, Batch
from scorer import reasons
from scorer.extender_protocol import Filtered


def filtered(batch: Batch, *, unknown_fit: bool) -> Filtered:
    """The nodes that take the pod, and the reasons of the others, in the order of the call.

    With `unknown_fit` so do nodes of unknown topology, and those that would take too long to answer.
    """
    refusals = {
        code: verdict for code, verdict in batch.refusals.items() if verdict.answered or not unknown_fit
    }
    texts = {code: reasons.reason(verdict) for code, verdict in refusals.items()}
    permanent = {code for code, verdict in refusals.items() if verdict.permanent}
    if not unknown_fit:
        # Whoever were evicted there, no topology would appear.
        texts[UNKNOWN] = reasons.UNKNOWN
        permanent.add(UNKNOWN)
    fit, (failed, unresolvable) = batch.split(texts.keys() - permanent, permanent)
    return Filtered(
        [*fit],
        {name: texts[code] for name, code in failed.items()},
        {name: texts[code] for name, code in unresolvable.items()},
    )
