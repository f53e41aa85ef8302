"""
What the webhook would decide for pods: the check of manifests in a pipeline.

A pod is denied if it fits no node shape that is present, remembered or declared, or if its namespace does not
allow it. That it does not fit at the moment is not a mistake in a manifest, so it is only a warning.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from kubectl_numa.lines import TextWriter, counted
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.manifests import Manifest
from kubectl_numa.questions import ClusterView, PodDecision
from numalign.cache import admission
from numalign.kube.decode.templates import NOWHERE
from numalign.model.errors import BadInput


class CheckResult(StrEnum):
    """The result of checking one manifest."""

    OK = "ok"
    NEVER = "never"
    DENIED = "denied"
    BAD = "bad"


_CODES: Mapping[CheckResult, int] = MappingProxyType(
    {CheckResult.OK: 0, CheckResult.NEVER: 1, CheckResult.DENIED: 1, CheckResult.BAD: 2}
)


@dataclass(frozen=True, slots=True)
class Checked:
    """
    One manifest, checked; `pod` is None if it cannot be read.

    `able` counts the nodes that could run its pod, `unanswered` those among them that took too long to
    evaluate.
    """

    manifest: Manifest
    pod: PodDecision | None = None
    able: int = 0
    unanswered: int = 0

    @property
    def result(self) -> CheckResult:
        """Return the result."""
        if self.pod is None:
            return CheckResult.BAD
        if self.refusal is None:
            return CheckResult.OK
        denied = self.pod.decision.state in admission.BY_ITSELF
        return CheckResult.DENIED if denied else CheckResult.NEVER

    @property
    def refusal(self) -> str | None:
        """Return the webhook's message if it denies the pod; the first mistake if the pod cannot be read."""
        if self.pod:
            return self.pod.decision.refusal
        return admission.invalid_text(self.manifest.mistakes) if self.manifest.mistakes else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the webhook's warnings."""
        return self.pod.decision.all_warnings if self.pod else ()

    def line(self, nodes: int) -> str:
        """Return the check of the pod in one line, without its result; `nodes` counts those with topology."""
        pod, manifest = self.manifest.pod, self.manifest
        name = f"{pod.namespace}/{pod.name}" if pod else manifest.kind or "nothing"
        guessed = ", guessed" if manifest.place.guessed else ""
        return f"{name} ({manifest.where}{guessed}): {self.refusal or self._nodes_text(nodes)}"

    def _nodes_text(self, nodes: int) -> str:
        intent = self.pod.intent if self.pod else None
        more = f", {self.unanswered} not evaluated" if self.unanswered else ""
        policy = intent.policy if intent else "no intent"
        placed = f", {self.pod.handed_over}" if self.pod and self.pod.handed_over else ""
        return f"{policy}, {self.able - self.unanswered} of {nodes} nodes could run it{more}{placed}"

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
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
            "scheduler": self.pod and self.pod.scheduler,
            "gate": self.pod and self.pod.gate,
            "able": self.able,
            "notAnswered": self.unanswered,
            "reason": self.refusal if self.pod else None,
            "refusal": self.refusal,
            "warnings": list(self.warnings),
            "mistakes": [str(mistake) for mistake in self.manifest.mistakes],
        }


def listing(results: Sequence[Checked], *, text: Callable[[TextWriter], object]) -> Listing:
    """Return the checks as a listing; `text` draws them for people."""
    return Listing(
        ("result", "namespace", "name", "kind", "where"),
        (ListedRow(_type_and_name(checked), _cells(checked)) for checked in results),
        lambda: [checked.to_json() for checked in results],
        wide_columns=("warnings", "reason"),
        text=text,
    )


def _type_and_name(checked: Checked) -> str:
    pod = checked.manifest.pod
    return f"pod/{pod.name}" if pod else checked.manifest.kind.lower()


def _cells(checked: Checked) -> tuple[object, ...]:
    pod, manifest = checked.manifest.pod, checked.manifest
    place = (pod.namespace, pod.name) if pod else ("", "")
    warnings, refusal = len(checked.warnings), checked.refusal
    return (checked.result, *place, manifest.kind, manifest.where, warnings, refusal)


def check(manifest: Manifest, cluster: ClusterView) -> Checked:
    """Check one manifest; a bad one is a result, never an error."""
    if manifest.place is NOWHERE:
        return Checked(manifest)
    name = manifest.pod.name if manifest.pod else ""
    try:
        # If a pod's amounts are invalid, the webhook still reports its other mistakes, and so does this.
        pod = cluster.decide(manifest.place.raw, name=name, namespace=manifest.namespace)
    except BadInput as error:
        return Checked(manifest.wrong_pod(error))
    if manifest.mistakes:
        return Checked(manifest)
    survey = cluster.ever(pod)
    return Checked(manifest, pod, survey.able, survey.unanswered)


def exit_code(results: list[Checked]) -> int:
    """Return 0 if all could run, 1 if one never could, 2 if one could not be read; ignore guesses."""
    sure = (checked.result for checked in results if not checked.manifest.place.guessed)
    return max((_CODES[result] for result in sure), default=0)


def summary(results: list[Checked]) -> str:
    """Return how many pods there were, by result."""
    if not results:
        return "the manifests contain no pods"
    counts = Counter(checked.result for checked in results)
    parts = [f"{count} {result}" for result, count in sorted(counts.items())]
    warned = sum(bool(checked.warnings) for checked in results)
    parts += [f"{warned} with warnings"] if warned else []
    return f"{counted(len(results), 'pod')}: {', '.join(parts)}"
