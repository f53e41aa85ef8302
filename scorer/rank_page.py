"""The order of nodes for a pod, for people: `/v1/rank`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from numalign.cache.ranking import Ranks, Score
from numalign.decision import wording
from numalign.kube.decode import placements
from numalign.scheduling.node_answers import NodeAnswer
from numalign.scheduling.scheduler_state import PendingPod


def page(  # noqa: PLR0913  what a page is made of
    answers: Sequence[NodeAnswer],
    ranks: Ranks,
    *,
    pod: PendingPod,
    age: float | None,
    not_eligible: Sequence[NodeAnswer] = (),
    sources: Callable[[str], Mapping[str, int]],
) -> bytes:
    """Return every node with its answer, the best first, as JSON.

    `sources` returns, for a node's name, how many of its pods' placements are known from which source. The
    `ranks` are of the nodes of `answers`; those that the pod may not use come last, by name.
    """
    best_first = ranks.order([answer.name for answer in answers])
    # Among nodes that do not fit, unknown ones come last: the least can be said about them.
    order = sorted(best_first, key=lambda position: answers[position].prediction is None)
    intent = pod.question.intent
    return orjson.dumps(
        {
            "pod": f"{pod.namespace}/{pod.name}",
            "policy": intent.policy,
            "age": age,
            "nodes": [
                *(_shown(answers[position], ranks.score(position), sources) for position in order),
                *map(_refused, sorted(not_eligible, key=lambda answer: answer.name)),
            ],
        },
        option=orjson.OPT_NON_STR_KEYS,
    )


def _shown(
    answer: NodeAnswer, score: Score, sources: Callable[[str], Mapping[str, int]]
) -> Mapping[str, Any]:
    prediction = answer.prediction
    shown = {"name": answer.name, "fits": True} if answer.fits else _refused(answer)
    if prediction is None:
        return {**shown, "known": None}
    verdict = prediction.verdict
    return {
        **shown,
        "aligned": score.aligned,
        "scores": score.values,
        "placement": placements.render(prediction.node, verdict.placement) if verdict.admitted else None,
        "certain": prediction.record is not None,
        "waitsFor": ["/".join(pod.name) for pod in (*prediction.waits_for, *prediction.terminating)],
        "basis": prediction.basis,
        "sources": sources(answer.name),
        "known": verdict.known,
        "doubts": [str(doubt) for doubt in verdict.doubts],
    }


def _refused(answer: NodeAnswer) -> Mapping[str, Any]:
    shown = {"name": answer.name, "fits": False, "permanent": answer.permanent, "reason": answer.reason}
    verdict = answer.prediction.verdict if answer.prediction else None
    if verdict is None or verdict.refusal is None:
        return shown
    return {
        **shown,
        "refuser": verdict.refusal.refuser,
        "because": wording.sentence(verdict),
        "shortages": [*map(wording.shortage, verdict.refusal.shortages)],
    }
