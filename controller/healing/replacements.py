"""
What a pod's owner would make in its place, and where that would sit better.

The replacement comes of the owner's template, which says nothing of nodes that were chosen later: a pod that
was pinned when it was placed loses its pin. Better is a node on which the rules predict that the replacement
is aligned, at once and without waiting for others; a node that only tries its best is not.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from controller.held import reservation_of
from numalign.decision.scoring import aligned
from numalign.kube.decode.parts import inner
from numalign.kube.decode.scheduling import REQUIRED
from numalign.ledger.model import Prediction
from numalign.model.constraints import NAME_FIELD
from numalign.model.demand import Demand
from numalign.model.intent import PINNED_AT
from numalign.runtime.cooperative import TimeSlice, patiently
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.ranking import Ranker
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_LOOKED_AT = 8
"""Nodes that are asked by themselves for one pod, the best first."""

_Json = Mapping[str, Any]


def template_of(raw: _Json, node: str) -> dict[str, Any]:
    """The v1 Pod that would be made anew in place of this one on a node, as far as it tells."""
    metadata, spec = dict(raw.get("metadata") or {}), dict(raw.get("spec") or {})
    pinned = inner(metadata.get("annotations"), PINNED_AT) is not None
    metadata.pop("uid", None)
    spec.pop("nodeName", None)
    affinity = inner(spec.get("affinity"), "nodeAffinity")
    if pinned and isinstance(affinity, dict) and isinstance(affinity.get(REQUIRED), dict):
        required = _unpinned(affinity[REQUIRED], node)
        kept = {key: value for key, value in affinity.items() if key != REQUIRED}
        spec["affinity"] = {
            **spec["affinity"],
            "nodeAffinity": {**kept, **({REQUIRED: required} if required else {})},
        }
    return {**raw, "metadata": metadata, "spec": spec}


def _unpinned(required: _Json, node: str) -> dict[str, Any] | None:
    """Required terms without the name of a node; None if nothing else was required."""
    terms = required.get("nodeSelectorTerms")
    if not isinstance(terms, list):
        return dict(required)
    freed = [_without_pin(term, node) if isinstance(term, dict) else term for term in terms]
    if len(freed) == 1 and not freed[0]:
        return None
    return {**required, "nodeSelectorTerms": freed}


def _without_pin(term: _Json, node: str) -> dict[str, Any]:
    fields = term.get("matchFields")
    if not isinstance(fields, list):
        return dict(term)
    pin = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    kept = [field for field in fields if field != pin]
    others = {key: value for key, value in term.items() if key != "matchFields"}
    return {**others, **({"matchFields": kept} if kept else {})}


@dataclass(frozen=True, slots=True)
class BetterPlaces:
    """Looks for a better node; `fits` says whether a node has room for a pod as a whole."""

    state: SchedulerState
    nodes: NodeAnswers
    ranker: Ranker
    fits: Callable[[str, Demand], bool]

    def replacement(self, raw: _Json, uid: str, node: str, *, created: int) -> PendingPod:
        """The replacement of this pod; raises `BadInput` if it is invalid."""
        pending = self.state.pending_pod(template_of(raw, node))
        return replace(pending, uid=reservation_of(uid), created=created)

    async def find(self, pending: PendingPod, *, other_than: str) -> str | None:
        """The best other node that would align the pod now; None if there is none.

        It takes many steps, with others having a turn in between: what it comes to is asked once more.
        """
        names = tuple(name for name in self.state.node_names() if name != other_than)
        await patiently(self.nodes.work(names, pending))
        kept_away = self.nodes.not_eligible(names, pending)
        eligible = [name for name in names if name not in kept_away]
        time_slice, looked_at = TimeSlice(), 0
        for name in self._in_order(eligible, pending):
            await time_slice.share()
            if not self.fits(name, pending.demand):
                continue
            if self.prediction(name, pending):
                return name
            looked_at += 1
            if looked_at >= MOST_LOOKED_AT:
                return None
        return None

    def _in_order(self, names: list[str], pending: PendingPod) -> Iterator[str]:
        batch = self.nodes.batch(names, pending)
        filtered, _ = self.nodes.filtered(names, pending)
        ranks = self.ranker.ranks(batch, self.state.labels, opted_out=pending.opted_out)
        fit = frozenset(filtered.fit)
        promising = frozenset(compress(names, ranks.aligned.tolist()))
        return (names[at] for at in ranks.order(names) if names[at] in fit and names[at] in promising)

    def prediction(self, name: str, pending: PendingPod) -> Prediction | None:
        """What a node would give the pod at this moment, aligned and without waiting; else None."""
        prediction = self.state.predict(name, pending, without=())
        if prediction is None or not prediction.reservable:
            return None
        question, verdict = pending.question, prediction.verdict
        if not aligned(prediction.node, question.demand, verdict.placement, question.intent):
            return None
        return prediction
