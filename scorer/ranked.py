"""
The order of nodes for a pod, for whoever asks for numbers and for people.

`/prioritize`, Volcano and `/v1/rank` see the same order; they differ in what they print of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from numalign.cluster import placements
from numalign.fleet.ranks import Ranks, Score
from numalign.rules import wording
from numalign.rules.verdict import Verdict
from scorer.judging import Judgement, Poll
from scorer.ranking import Ranker
from scorer.register import Register, Subject


def ranks(poll: Poll, subject: Subject, *, register: Register, ranker: Ranker) -> Ranks:
    """What the nodes of a call are worth to a pod, by their place; one that nobody knows is worth nothing."""
    return ranker.ranks(
        poll.said.answer,
        poll.names,
        poll.said.rows,
        register.labels,
        apart=poll.singles,
        opted_out=subject.opted_out,
    )


def page(judged: Sequence[Judgement], found: Ranks, *, subject: Subject, age: float | None) -> bytes:
    """Every node with what it says, the best first, as JSON; the ranks are of the same nodes."""
    ranked = found.order([each.name for each in judged])
    # To those who refuse alike, and last, belong those that nobody knows: of these there is the least to say.
    order = sorted(ranked, key=lambda place: judged[place].offer is None)
    intent = subject.question.intent
    return orjson.dumps(
        {
            "pod": f"{subject.namespace}/{subject.name}",
            "policy": intent.policy,
            "age": age,
            "nodes": [_shown(judged[place], found.score(place)) for place in order],
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
        "because": wording.sentence(verdict),
        "shortages": [*map(wording.shortage, refusal.shortages)],
    }
