"""
The order of nodes for a pod, for whoever asks for numbers and for people.

`/prioritize`, Volcano and `/v1/rank` see the same order; they differ in what they print of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from numalign.cache.ranking import Ranks, Score
from numalign.decision import wording
from numalign.decision.verdict import Verdict
from numalign.kube.decode import placements
from scorer import reasons
from scorer.judging import Judge, Judgement, Poll
from scorer.places import Away
from scorer.ranking import Ranker
from scorer.scheduler_state import PendingPod, SchedulerState


def ranks(poll: Poll, subject: PendingPod, *, register: SchedulerState, ranker: Ranker) -> Ranks:
    """What the nodes of a call are worth to a pod, by their place; one that nobody knows is worth nothing."""
    return ranker.ranks(
        poll.said.answer,
        poll.names,
        poll.said.rows,
        register.labels,
        apart=poll.singles,
        opted_out=subject.opted_out,
    )


def kept_away(away: Mapping[str, Away], subject: PendingPod, *, judge: Judge) -> list[Judgement]:
    """What is told of nodes that the pod may not go to.

    Of one that will take pods again it is told before that what it would refuse then too.
    """
    later = [name for name, why in away.items() if not why.lasting]
    never = {each.name: each for each in judge.ask(later, subject) if each.permanent}
    return [never.get(name) or _kept(name, why) for name, why in away.items()]


def _kept(name: str, why: Away) -> Judgement:
    return Judgement(name, None, fits=False, permanent=why.lasting, reason=reasons.kept_away(why.unmet))


def page(
    judged: Sequence[Judgement],
    found: Ranks,
    *,
    subject: PendingPod,
    age: float | None,
    kept: Sequence[Judgement] = (),
) -> bytes:
    """Every node with what it says, the best first, as JSON.

    The ranks are of the nodes that are `judged`; those that the pod is `kept` from come last, by name.
    """
    ranked = found.order([each.name for each in judged])
    # To those who refuse alike, and last, belong those that nobody knows: of these there is the least to say.
    order = sorted(ranked, key=lambda place: judged[place].offer is None)
    intent = subject.question.intent
    return orjson.dumps(
        {
            "pod": f"{subject.namespace}/{subject.name}",
            "policy": intent.policy,
            "age": age,
            "nodes": [
                *(_shown(judged[place], found.score(place)) for place in order),
                *map(_refused, sorted(kept, key=lambda each: each.name)),
            ],
        },
        option=orjson.OPT_NON_STR_KEYS,
    )


def _shown(judgement: Judgement, score: Score) -> Mapping[str, Any]:
    offer = judgement.offer
    said = {"name": judgement.name, "fits": True} if judgement.fits else _refused(judgement)
    if offer is None:
        return {**said, "known": None}
    verdict = offer.verdict
    return {
        **said,
        "aligned": score.aligned,
        "scores": score.values,
        "placement": placements.render(offer.node, verdict.placement) if verdict.admitted else None,
        "certain": offer.record is not None,
        "waitsFor": ["/".join(each.name) for each in (*offer.waits_for, *offer.terminating)],
        "basis": offer.basis,
        "known": verdict.known,
        "doubts": [str(doubt) for doubt in verdict.doubts],
    }


def _refused(judgement: Judgement) -> Mapping[str, Any]:
    """What a node says that does not take the pod."""
    why = _why(judgement.offer.verdict) if judgement.offer else {}
    said = {"fits": False, "permanent": judgement.permanent, "reason": judgement.reason}
    return {"name": judgement.name, **said, **why}


def _why(verdict: Verdict) -> Mapping[str, Any]:
    refusal = verdict.refusal
    if refusal is None:
        return {}
    return {
        "refuser": refusal.refuser,
        "because": wording.sentence(verdict),
        "shortages": [*map(wording.shortage, refusal.shortages)],
    }
