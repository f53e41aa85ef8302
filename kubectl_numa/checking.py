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

from kubectl_numa.lines import TextWriter, counted, full_name
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.manifests import Manifest
from kubectl_numa.questions import ClusterView, PodDecision
from numalign.cache import admission
from numalign.cache.admission import AdmissionState
from numalign.kube.decode.templates import NOWHERE
from numalign.model.errors import BadInput


class CheckResult(StrEnum):
    """The result of checking one manifest."""

    OK = "ok"
    UNKNOWN = "unknown"
    NEVER = "never"
    DENIED = "denied"
    BAD = "bad"


_CODES: Mapping[CheckResult, int] = MappingProxyType(
    {CheckResult.NEVER: 1, CheckResult.DENIED: 1, CheckResult.BAD: 2}
)

_UNKNOWN = frozenset(
    {
        AdmissionState.NOT_KNOWN,
        AdmissionState.NOT_MATCHED,
        AdmissionState.UNKNOWN_NODE,
        AdmissionState.UNKNOWN_RESOURCE,
    }
)
"""The states in which a pod is admitted because not all is known: no known node could run it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One manifest, checked; `pod` is None if it cannot be read, or if its kind is not understood.

    `able` counts the nodes that could run its pod, `unanswered` those among them that took too long to
    evaluate. `kept_away` is why the pod may use none, `never` why none could run it although it requests no
    alignment.
    """

    manifest: Manifest
    pod: PodDecision | None = None
    able: int = 0
    unanswered: int = 0
    kept_away: str | None = None
    never: str | None = None

    @property
    def result(self) -> CheckResult:
        """Return the result."""
        if self.pod is None:
            return CheckResult.BAD if self.manifest.mistakes else CheckResult.UNKNOWN
        if self.refusal is None:
            unasked = 0 < self.able == self.unanswered
            unknown = unasked or self.kept_away or self.pod.decision.state in _UNKNOWN
            return CheckResult.UNKNOWN if unknown else CheckResult.OK
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
        """Return what is to be said of how it was read, and the webhook's warnings."""
        of_webhook = self.pod.decision.all_warnings if self.pod else ()
        return (*self.manifest.warnings, *of_webhook, *filter(None, [self.never]))

    def line(self, nodes: int) -> str:
        """Return the check of the pod in one line, without its result; `nodes` counts those with topology."""
        manifest = self.manifest
        if manifest.document is None:
            # What is wrong with a file begins with its name.
            return str(self.refusal)
        namespace, name = manifest.pod_name
        shown = full_name(namespace, name) if name else manifest.kind or "object"
        guessed = ", guessed" if manifest.place.guessed else ""
        words = self.refusal or "its pods were not checked"
        if self.pod and not self.refusal:
            policy = self.pod.intent.policy if self.pod.intent else "no intent"
            able = f"{self.able - self.unanswered} of {nodes} nodes could run it"
            unanswered = f", {self.unanswered} not evaluated" if self.unanswered else ""
            placed = f", {self.pod.handed_over}" if self.pod.handed_over else ""
            why = f": {self.kept_away}" if self.kept_away else ""
            words = f"{policy}, {able}{unanswered}{placed}{why}"
        return f"{shown} ({manifest.where}{guessed}): {words}"

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        manifest, (namespace, name) = self.manifest, self.manifest.pod_name
        return {
            "file": manifest.file,
            "document": manifest.document,
            "kind": manifest.kind or None,
            "template": manifest.place.where or None,
            "guessed": manifest.place.guessed,
            "pod": name or None,
            "namespace": (namespace or None) if name else None,
            "result": self.result,
            "scheduler": self.pod and self.pod.scheduler,
            "gate": self.pod and self.pod.gate,
            "able": self.able,
            "notAnswered": self.unanswered,
            "reason": (self.refusal or self.kept_away) if self.pod else None,
            "refusal": self.refusal,
            "warnings": list(self.warnings),
            "mistakes": [str(mistake) for mistake in manifest.mistakes],
        }


def listing(results: Sequence[Checked], *, text: Callable[[TextWriter], object]) -> Listing:
    """Return the checks as a listing; `text` draws them for people."""

    def row(checked: Checked) -> ListedRow:
        manifest, (namespace, name) = checked.manifest, checked.manifest.pod_name
        kind = "pod" if manifest.pod else manifest.kind.lower()
        why = checked.refusal or checked.kept_away
        cells = (checked.result, namespace if name else "", name, manifest.kind, manifest.where)
        return ListedRow(f"{kind}/{name}" if name else kind, (*cells, len(checked.warnings), why))

    return Listing(
        ("result", "namespace", "name", "kind", "where"),
        map(row, results),
        lambda: [checked.to_json() for checked in results],
        wide_columns=("warnings", "reason"),
        text=text,
    )


def check(manifest: Manifest, cluster: ClusterView) -> Checked:
    """Check one manifest; a bad one is a result, never an error."""
    if manifest.place is NOWHERE or not (manifest.pod or manifest.mistakes):
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
    return Checked(manifest, pod, survey.able, survey.unanswered, cluster.kept_away(pod), cluster.never(pod))


def exit_code(results: list[Checked]) -> int:
    """Return 0 if all could run, 1 if one never could, 2 if one could not be read; ignore guesses."""
    sure = (checked.result for checked in results if not checked.manifest.place.guessed)
    return max((_CODES.get(result, 0) for result in sure), default=0)


def summary(results: list[Checked]) -> str:
    """Return how many pods there were, by result."""
    if not results:
        return "the manifests contain no pods"
    counts = Counter(checked.result for checked in results)
    parts = [f"{count} {result}" for result, count in sorted(counts.items())]
    warned = sum(bool(checked.warnings) for checked in results)
    parts += [f"{warned} with warnings"] if warned else []
    return f"{counted(len(results), 'pod')}: {', '.join(parts)}"
