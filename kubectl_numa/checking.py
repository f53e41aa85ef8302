"""
Whether pods could run at all: the question that a pipeline asks of manifests.

A pod could run if some node could hold it with nothing else on it, and its namespace lets it pass. What
does not fit at the moment is no mistake of a manifest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kubectl_numa import questions
from kubectl_numa.manifests import Manifest
from kubectl_numa.pages import enforced
from kubectl_numa.questions import Asked, Cluster
from numalign.rules import wording
from numalign.rules.errors import BadInput
from numalign.rules.intent import Match, Policy


class Result(StrEnum):
    """What a check says of one manifest."""

    OK = "ok"
    NEVER = "never"
    DENIED = "denied"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Checked:
    """One manifest, checked; `reason` says why no node may run its pod.

    `able` counts the nodes that could, so many `unanswered` ones among them: nobody can say it of those.
    """

    manifest: Manifest
    result: Result
    asked: Asked | None = None
    able: int = 0
    unanswered: int = 0
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The result for programs."""
        pod = self.manifest.pod
        return {
            "file": self.manifest.file,
            "document": self.manifest.document,
            "kind": self.manifest.kind or None,
            "template": self.manifest.template or None,
            "guessed": self.manifest.place.guessed,
            "pod": pod.name if pod else None,
            "namespace": pod.namespace if pod else None,
            "result": self.result,
            "able": self.able,
            "notAnswered": self.unanswered,
            "reason": self.reason,
            "mistakes": [str(mistake) for mistake in self.manifest.mistakes],
        }


def check(manifest: Manifest, cluster: Cluster, *, match: Match) -> Checked:
    """Check one manifest; a bad one is a result, never an error."""
    if manifest.mistakes or manifest.pod is None:
        return Checked(manifest, Result.BAD)
    try:
        asked = questions.ask(manifest.pod, cluster.namespaces, match=match)
    except BadInput as error:
        return Checked(manifest.wrong_pod(error), Result.BAD)
    survey = cluster.fleet.ever(asked.question)
    found = Checked(manifest, Result.OK, asked, survey.able, survey.unanswered)
    if asked.below:
        return replace(found, result=Result.DENIED, reason=enforced(asked))
    if not survey.able:
        floor = asked.rules.enforce or Policy.BEST_EFFORT
        return replace(found, result=Result.NEVER, reason=cluster.fleet.why_not(asked.question, floor=floor))
    return found


def exit_code(results: list[Checked]) -> int:
    """0 if all could run, 1 if one never could, 2 if one could not be read; nothing depends on a guess."""
    sure = (each.result for each in results if not each.manifest.place.guessed)
    return max((_CODES[result] for result in sure), default=0)


def lines(results: list[Checked], cluster: Cluster) -> Iterator[tuple[Result, str]]:
    """One line for each pod: the result, and the words after it."""
    known = len(cluster.fleet.nodes)
    for each in results:
        pod = each.manifest.pod
        name = f"{pod.namespace}/{pod.name}" if pod else each.manifest.kind or "nothing"
        guessed = ", a guess" if each.manifest.place.guessed else ""
        yield each.result, f"{name} ({each.manifest.where}{guessed}): {_words(each, known)}"


def _words(checked: Checked, known: int) -> str:
    if checked.result is Result.BAD:
        first, *others = checked.manifest.mistakes
        more = f" (and {len(others)} more)" if others else ""
        return f"{first.where}: {first.message}{more}" if first.where else f"{first.message}{more}"
    if checked.reason:
        return wording.first_sentence(checked.reason)
    intent = checked.asked.intent if checked.asked else None
    sure, unanswered = checked.able - checked.unanswered, checked.unanswered
    more = f", {unanswered} not answered" if unanswered else ""
    return f"{intent.policy if intent else 'no intent'}, {sure} of {known} nodes could run it{more}"


_CODES = {Result.OK: 0, Result.NEVER: 1, Result.DENIED: 1, Result.BAD: 2}
