"""
The running pods with findings: text for people, and the same for programs.

`numalign.scheduling.running_pods` finds them; this module prints them. Exit codes are those of manifests: 1
if a pod would be denied, and 2 if one cannot be read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from kubectl_numa.lines import TextWriter, counted
from kubectl_numa.listings import ListedRow, Listing
from kubectl_numa.moving import PlacedPods
from kubectl_numa.questions import ClusterView
from kubectl_numa.selection import PodSelection
from numalign.decision.alignment import Alignment, Judgement
from numalign.scheduling.pod_alignments import pod_alignments
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RuleResult, RunningPod, runs

_PROGRESS_EVERY = 500
"""Pods between two messages of progress."""

_CODES: Mapping[RuleOutcome, int] = MappingProxyType({RuleOutcome.FAIL: 1, RuleOutcome.ERROR: 2})

_WORDS: Mapping[tuple[PodRule, RuleOutcome], str] = MappingProxyType(
    {
        (PodRule.ADMITTED, RuleOutcome.ERROR): "unreadable",
        (PodRule.ALIGNED, RuleOutcome.FAIL): "misaligned",
        (PodRule.ALIGNED, RuleOutcome.WARN): "misaligned",
        (PodRule.ALIGNED, RuleOutcome.SKIP): "not judged",
        (PodRule.ENFORCE, RuleOutcome.FAIL): "below enforce",
        (PodRule.WARN, RuleOutcome.WARN): "below warn",
        (PodRule.AUDIT, RuleOutcome.WARN): "below audit",
        (PodRule.ADMITTED, RuleOutcome.FAIL): "would be denied now",
        (PodRule.ADMITTED, RuleOutcome.WARN): "would get a warning now",
    }
)
"""The result of a rule, in words, the most important first. A rule that is met needs none."""

_STYLES: Mapping[RuleOutcome, str] = MappingProxyType(
    {RuleOutcome.ERROR: "magenta", RuleOutcome.FAIL: "red", RuleOutcome.WARN: "yellow"}
)
_ALIGNED: Mapping[Judgement, bool] = MappingProxyType({Judgement.ALIGNED: True, Judgement.MISALIGNED: False})
_YES_OR_NO: Mapping[bool | None, str] = MappingProxyType({True: "yes", False: "no", None: ""})


def judged(
    placed: PlacedPods,
    view: ClusterView,
    selection: PodSelection,
    *,
    progress: Callable[[str], object] = lambda _doing: None,
) -> tuple[RunningPod, ...]:
    """Return the results of each rule for the running pods, by namespace and name."""
    chosen = [pod for pod in placed.state.pods.values() if runs(pod) and placed.selects(selection, pod)]
    chosen.sort(key=lambda pod: (pod.namespace, pod.name))
    judge = view.judge()
    alignments: dict[str, Alignment] = {}
    for node in {pod.node for pod in chosen}:
        alignments |= {entry.pod.uid: entry.alignment for entry in pod_alignments(placed.state, node)}
        progress(f"evaluating the alignment of pods: {len(alignments):,}")
    results: list[RunningPod] = []
    for at, pod in enumerate(chosen):
        if not at % _PROGRESS_EVERY:
            progress(f"checking pods: {at:,} of {len(chosen):,}")
        results.append(judge.judge(pod, alignments.get(pod.uid)))
    return tuple(results)


def exit_code(pods: Iterable[RunningPod]) -> int:
    """Return 1 if one is misaligned or would be denied today, 2 if one cannot be read; ignore warnings."""
    return max((_CODES.get(pod.outcome, 0) for pod in pods), default=0)


def listing(listed: Sequence[RunningPod], every: Sequence[RunningPod]) -> Listing:
    """Return the pods that are `listed`, of `every` one that was checked, as a listing.

    In documents, `aligned` is null if unknown, and `admitted` if not checked.
    """
    return Listing(
        ("namespace", "name", "outcome", "policy", "aligned", "below", "admitted"),
        (
            ListedRow(
                f"pod/{pod.pod.name}",
                (
                    *(pod.pod.namespace, pod.pod.name, pod.outcome, pod.policy),
                    pod.partial.extent if pod.partial else _YES_OR_NO[_ALIGNED.get(pod.judgement)],
                    *(",".join(pod.below), _YES_OR_NO[_is_admitted(pod)]),
                    *(pod.pod.node, pod.pod.owner and f"{pod.pod.owner.kind}/{pod.pod.owner.name}"),
                    pod.exempt
                    or "; ".join(_sentence(result) for result in pod.results if result.outcome in _STYLES),
                ),
            )
            for pod in listed
        ),
        lambda: [
            {
                "namespace": pod.pod.namespace,
                "name": pod.pod.name,
                "uid": pod.pod.uid,
                "node": pod.pod.node,
                "owner": {"kind": pod.pod.owner.kind, "name": pod.pod.owner.name} if pod.pod.owner else None,
                "policy": pod.policy,
                "outcome": pod.outcome,
                "aligned": _ALIGNED.get(pod.judgement),
                "judgement": pod.judgement,
                "extent": pod.partial and pod.partial.extent,
                "notPinned": list(pod.partial.unpinned) if pod.partial else [],
                "below": list(pod.below),
                "admitted": _is_admitted(pod),
                "refusal": pod.decision.refusal if pod.decision else None,
                "exempt": pod.exempt or None,
                "results": [
                    {"rule": result.rule, "outcome": result.outcome, "message": result.message or None}
                    for result in pod.results
                ],
            }
            for pod in listed
        ],
        wide_columns=("node", "owner", "why"),
        text=lambda writer: _draw(listed, every, writer),
    )


def _is_admitted(pod: RunningPod) -> bool | None:
    admitted = pod.result(PodRule.ADMITTED)
    return None if admitted is None else admitted.outcome not in _CODES


def _draw(listed: Sequence[RunningPod], every: Sequence[RunningPod], writer: TextWriter) -> None:
    """Draw the pods that are `listed`, by namespace, and how many of `every` one have findings."""
    totals = Counter(pod.pod.namespace for pod in every)
    for namespace, group in groupby(listed, key=lambda pod: pod.pod.namespace):
        pods = tuple(group)
        counts = f"{counted(totals[namespace], 'pod')}, {_findings(pods)}"
        writer.line(f"{namespace}  ", counts, indent=len(namespace) + 2, label_style="bold")
        for pod in pods:
            asks = pod.policy or "no intent"
            writer.line("  ", f"{pod.pod.name}  on {pod.pod.node}  {asks}", indent=2)
            if pod.exempt:
                writer.entry("", f"exempt: {pod.exempt}", indent=6)
            shortfalls = [result for result in pod.results if (result.rule, result.outcome) in _WORDS]
            for result in shortfalls:
                writer.entry("      ", _sentence(result), indent=6, style=_STYLES.get(result.outcome, ""))
            if not shortfalls and not pod.exempt:
                writer.entry("      ", "no findings", indent=6, style="green")
    summary = "no matching pod is running"
    if every:
        in_namespaces = counted(len(totals), "namespace")
        summary = f"{counted(len(every), 'pod')} in {in_namespaces}, {_findings(every)}"
    writer.line("", summary, indent=0)


def _sentence(result: RuleResult) -> str:
    words = _WORDS[result.rule, result.outcome]
    return f"{words}: {result.message}" if result.message else words


def _findings(pods: Iterable[RunningPod]) -> str:
    """Return how many pods have findings, and how many have each kind, the most important first."""
    short = [pod for pod in pods if pod.falls_short]
    kinds = Counter(
        _WORDS[key]
        for pod in short
        for key in {(result.rule, result.outcome) for result in pod.results if result.outcome in _STYLES}
    )
    words = ", ".join(f"{kinds[word]:,} {word}" for word in dict.fromkeys(_WORDS.values()) if kinds[word])
    having = f"{len(short):,} with findings" if short else "no findings"
    return f"{having}: {words}" if words else having
