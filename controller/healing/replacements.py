"""
The replacement that a pod's owner would create, and the nodes on which it would be aligned.

The replacement is created from the owner's template, which names no node that was chosen or excluded as the
gate of the pod was lifted. A node is better if the rules predict that the replacement is
aligned there now, without waiting for other pods; a kubelet that only does its best effort is not enough.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

from controller.held import reservation_of
from numalign.decision.scoring import aligned
from numalign.kube.decode.parts import inner
from numalign.kube.decode.scheduling import REQUIRED
from numalign.ledger.model import Prediction
from numalign.model.constraints import NAME_FIELD, Operator
from numalign.model.demand import Demand
from numalign.model.intent import NODE_LABEL, PINNED_AT
from numalign.runtime.cooperative import TimeSlice
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_EVALUATED = 8
"""Most nodes to predict one pod on, the best first."""

_Json = Mapping[str, Any]


def template_of(raw: _Json, node: str) -> dict[str, Any]:
    """Return the v1 Pod that would replace this one on a node, as far as the pod itself shows."""
    metadata, spec = dict(raw.get("metadata") or {}), dict(raw.get("spec") or {})
    pinned = inner(metadata.get("annotations"), PINNED_AT) is not None
    metadata.pop("uid", None)
    spec.pop("nodeName", None)
    affinity = inner(spec.get("affinity"), "nodeAffinity")
    terms = inner(inner(affinity, REQUIRED), "nodeSelectorTerms")
    if isinstance(affinity, dict) and isinstance(terms, list):
        freed = [_without_nodes(term, node if pinned else None) for term in terms]
        kept = dict(affinity)
        if freed != terms and freed == [{}]:
            # Nothing but the node was required.
            del kept[REQUIRED]
        else:
            kept[REQUIRED] = {**affinity[REQUIRED], "nodeSelectorTerms": freed}
        spec["affinity"] = {**spec["affinity"], "nodeAffinity": kept}
    return {**raw, "metadata": metadata, "spec": spec}


def _without_nodes(term: object, pin: str | None) -> object:
    """Return a required term without a pin to this node, and without exclusions of nodes."""
    if not isinstance(term, dict):
        return term
    of_pin = {"key": NAME_FIELD, "operator": "In", "values": [pin]}
    excludes = NODE_LABEL, Operator.NOT_IN
    freed = dict(term)
    for key in ("matchFields", "matchExpressions"):
        if isinstance(listed := term.get(key), list):
            kept = [each for each in listed if each != of_pin]
            # Nodes are excluded by our own label.
            kept = [each for each in kept if (inner(each, "key"), inner(each, "operator")) != excludes]
            freed[key] = kept
            if not kept:
                del freed[key]
    return freed


@dataclass(frozen=True, slots=True)
class BetterPlaces:
    """Finds a better node; `fits` returns whether a node as a whole has room for a pod."""

    state: SchedulerState
    nodes: NodeAnswers
    ranker: Ranker
    fits: Callable[[str, Demand], bool]

    def replacement(self, raw: _Json, uid: str, node: str) -> PendingPod:
        """Return the replacement of this pod; raise `BadInput` if it is invalid."""
        pending = self.state.pending_pod(template_of(raw, node))
        return replace(pending, uid=reservation_of(uid), created=self.state.next_created())

    async def find(self, pending: PendingPod, *, other_than: str) -> str | None:
        """Return the best other node that would align the pod now; None if there is none.

        This takes many steps, and other tasks run in between: the caller predicts the result once more.
        """
        names = tuple(name for name in self.state.node_names() if name != other_than)
        kept_away = self.nodes.not_eligible(names, pending)
        eligible = [name for name in names if name not in kept_away]
        in_order = await self.nodes.evaluate(partial(self._in_order, eligible, pending))
        time_slice, evaluated = TimeSlice(), 0
        for name in in_order:
            await time_slice.share()
            if not self.fits(name, pending.demand):
                continue
            if self.prediction(name, pending):
                return name
            evaluated += 1
            if evaluated >= MOST_EVALUATED:
                break
        return None

    def _in_order(self, names: Sequence[str], pending: PendingPod) -> Sequence[str]:
        batch = self.nodes.batch(names, pending)
        filtered, _ = self.nodes.filtered(names, pending)
        ranks = self.ranker.ranks(batch, self.state.labels, opted_out=pending.opted_out)
        fit = frozenset(filtered.fit)
        promising = frozenset(compress(names, ranks.aligned.tolist()))
        return [names[at] for at in ranks.order(names) if names[at] in fit and names[at] in promising]

    def prediction(self, name: str, pending: PendingPod) -> Prediction | None:
        """Return the prediction for the pod on a node now; None unless it is aligned without waiting."""
        prediction = self.state.predict(name, pending, without=())
        if prediction is None or not prediction.reservable:
            return None
        question, verdict = pending.question, prediction.verdict
        if not aligned(prediction.node, question.demand, verdict.placement, question.intent):
            return None
        return prediction
