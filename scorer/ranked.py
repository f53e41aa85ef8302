"""
The order of nodes for a pod, for whoever asks for numbers and for people.

`/prioritize`, Volcano and `/v1/rank` see the same order; they differ in what they print of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from numalign.cluster import placements
from numalign.rules.verdict import Verdict
from scorer import ranking
from scorer.judging import Judgement
from scorer.ranking import Judged, RankingRules, Score
from scorer.register import Register, Subject


def scores(
    judged: Sequence[Judgement], subject: Subject, *, register: Register, rules: RankingRules
) -> list[Score]:
    """What each of these nodes is worth to a pod, in their order; one that nobody knows is worth nothing."""
    known = list(_judged(judged, subject, register))
    found = {score.name: score for score in ranking.scores(known, rules, opted_out=subject.opted_out)}
    return [found.get(each.name) or Score(each.name) for each in judged]


def _judged(judged: Iterable[Judgement], subject: Subject, register: Register) -> Iterable[Judged]:
    for each in judged:
        if each.offer is not None:
            labels = register.labels.get(each.name, {})
            yield Judged(each.name, each.offer.node, each.offer.verdict, subject.question, labels)


def page(
    judged: Sequence[Judgement], found: Sequence[Score], *, subject: Subject, age: float | None
) -> bytes:
    """Every node with what it says, the best first, as JSON."""
    order = {score.name: at for at, score in enumerate(ranking.in_order(found))}
    by_name = {score.name: score for score in found}
    listed = sorted(judged, key=lambda each: order[each.name])
    intent = subject.question.intent
    return orjson.dumps(
        {
            "pod": f"{subject.namespace}/{subject.name}",
            "policy": intent.policy,
            "age": age,
            "nodes": [_shown(each, by_name[each.name]) for each in listed],
        },
        option=orjson.OPT_NON_STR_KEYS,
    )


def _shown(judgement: Judgement, score: Score) -> Mapping[str, Any]:
    offer = judgement.offer
    said = {"name": judgement.name, "fits": judgement.fits}
    if not judgement.fits:
        said |= {"permanent": judgement.permanent, "reason": judgement.reason}
    if offer is None:
        return {**said, "known": None}
    verdict = offer.verdict
    return {
        **said,
        **_why(verdict),
        "aligned": score.aligned,
        "scores": score.values,
        "placement": placements.render(offer.node, verdict.placement) if verdict.admitted else None,
        "certain": offer.record is not None,
        "waitsFor": ["/".join(each.name) for each in (*offer.waits_for, *offer.leavers)],
        "basis": offer.basis,
        "known": verdict.known,
        "doubts": [str(doubt) for doubt in verdict.doubts],
    }


def _why(verdict: Verdict) -> Mapping[str, Any]:
    refusal = verdict.refusal
    if refusal is None:
        return {}
    return {
        "refuser": refusal.refuser,
        "because": str(refusal),
        "shortages": [str(shortage) for shortage in refusal.shortages],
    }
