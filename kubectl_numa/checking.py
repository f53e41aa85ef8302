"""
What the webhook would say to pods: the question that a pipeline asks of manifests.

A pod is refused if no shape of nodes that this cluster has, had or was told of could take it, or if its
namespace does not let it pass. What does not fit at the moment is no mistake of a manifest, but a warning.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubectl_numa import questions
from kubectl_numa.lines import counted
from kubectl_numa.manifests import Manifest
from kubectl_numa.questions import Asked, Cluster
from numalign.cache import admission, dra
from numalign.cache.admission import AdmissionDecision, AdmissionState
from numalign.kube.decode.templates import NOWHERE
from numalign.model.errors import BadInput


class Result(StrEnum):
    """What a check says of one manifest."""

    OK = "ok"
    NEVER = "never"
    DENIED = "denied"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Checked:
    """One manifest, checked.

    `able` counts the nodes here that could run its pod, so many `unanswered` ones among them: nobody can say
    it of those.
    """

    manifest: Manifest
    result: Result
    asked: Asked | None = None
    able: int = 0
    unanswered: int = 0

    @property
    def refusal(self) -> str | None:
        """The webhook's own words, if it refuses the pod; of one that cannot be read, the first mistake."""
        if self.asked:
            return self.asked.decision.refusal
        return admission.invalid_text(self.manifest.mistakes) if self.manifest.mistakes else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the webhook warns of."""
        return self.asked.decision.all_warnings if self.asked else ()

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
            "reason": self.refusal if self.asked else None,
            "refusal": self.refusal,
            "warnings": list(self.warnings),
            "mistakes": [str(mistake) for mistake in self.manifest.mistakes],
        }


def check(manifest: Manifest, cluster: Cluster) -> Checked:
    """Check one manifest; a bad one is a result, never an error."""
    if manifest.place is NOWHERE:
        return Checked(manifest, Result.BAD)
    name = manifest.pod.name if manifest.pod else ""
    try:
        # Of a pod whose amounts cannot be read the webhook tells what else is wrong, and so does this.
        asked = questions.ask(manifest.place.raw, cluster, name=name, namespace=manifest.namespace)
    except BadInput as error:
        return Checked(manifest.wrong_pod(error), Result.BAD)
    if manifest.mistakes:
        return Checked(manifest, Result.BAD)
    survey = cluster.fleet.ever(dra.sure(asked.question, cluster.served), asked.constraints)
    return Checked(manifest, _result(asked.decision), asked, survey.able, survey.unanswered)


def _result(decision: AdmissionDecision) -> Result:
    if decision.refusal is None:
        return Result.OK
    return Result.DENIED if decision.state is AdmissionState.BELOW_ENFORCED else Result.NEVER


def exit_code(results: list[Checked]) -> int:
    """0 if all could run, 1 if one never could, 2 if one could not be read; nothing depends on a guess."""
    sure = (each.result for each in results if not each.manifest.place.guessed)
    return max((_CODES[result] for result in sure), default=0)


def lines(results: list[Checked], cluster: Cluster) -> Iterator[str]:
    """One line for each pod, without its result."""
    known = len(cluster.fleet.nodes)
    for each in results:
        pod = each.manifest.pod
        name = f"{pod.namespace}/{pod.name}" if pod else each.manifest.kind or "nothing"
        guessed = ", a guess" if each.manifest.place.guessed else ""
        yield f"{name} ({each.manifest.where}{guessed}): {_words(each, known)}"


def summary(results: list[Checked]) -> str:
    """How many pods there were, and what came of them."""
    if not results:
        return "there is no pod in the manifests"
    counts = Counter(each.result for each in results)
    parts = [f"{count} {result}" for result, count in sorted(counts.items())]
    warned = sum(bool(each.warnings) for each in results)
    parts += [f"{warned} with warnings"] if warned else []
    return f"{counted(len(results), 'pod')}: {', '.join(parts)}"


def _words(checked: Checked, known: int) -> str:
    if checked.refusal:
        return checked.refusal
    intent = checked.asked.intent if checked.asked else None
    sure, unanswered = checked.able - checked.unanswered, checked.unanswered
    more = f", {unanswered} not answered" if unanswered else ""
    return f"{intent.policy if intent else 'no intent'}, {sure} of {known} nodes could run it{more}"


_CODES = {Result.OK: 0, Result.NEVER: 1, Result.DENIED: 1, Result.BAD: 2}
