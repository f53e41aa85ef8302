"""
Part one: a cluster small enough to check by hand, and a pod for each feature.

The comment above each pod in the bundled file says what to expect: the words of the outcome, and the nodes
that the injected affinity excludes. Every pod is shown with the webhook's decision and with the zones that it
would get, and the result is compared with its comment. If there is a difference, it is shown, and the demo
exits with 1.

    BadInput
    └── BadStory    a pod without a comment that says what it shows and what to expect
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from rich.text import Text

from kubectl_numa import explanation
from kubectl_numa.demo import DATA
from kubectl_numa.demo.reviews import OutcomeCounts, PodOutcome, Post, admit
from kubectl_numa.explanation import Explanation
from kubectl_numa.lines import TextWriter, amounts, some, zones
from kubectl_numa.pages import intent_text
from kubectl_numa.questions import ClusterView
from numalign.kube.decode import pods
from numalign.model.errors import BadInput, Mistake
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import node_class
from numalign.model.resources import quantities
from numalign.scheduling.node_explanation import Chance
from numalign.scheduling.scheduler_state import SchedulerState

INDENT = 12
CLUSTER = "cluster.yaml"
PODS = "pods.yaml"

_STORY = re.compile(
    r"^# Shows: (?P<shows>.+?)\n# Expected: (?P<expected>.+?)\n(?!#)", re.DOTALL | re.MULTILINE
)
_BRACKETS = re.compile(r"\([^)]*\)")
_AWAY = re.compile(r"keeps? away from (?P<all>all known nodes except )?(?P<names>.*)")


class BadStory(BadInput):
    """Raised if a bundled pod has no comment that says what it shows and what to expect."""


@dataclass(frozen=True, slots=True)
class Story:
    """One bundled pod: its manifest, what it shows, and what to expect of it."""

    manifest: dict[str, Any]
    shows: str
    expected: str

    @property
    def outcome(self) -> frozenset[str]:
        """The expected words of the outcome: those before the semicolon."""
        return frozenset(self.expected.rstrip(".").partition(";")[0].split(", "))

    def keeps_away_from(self, known: Collection[str]) -> frozenset[str]:
        """Return the nodes that the affinity should exclude, of the `known` nodes."""
        away = _AWAY.search(_BRACKETS.sub("", self.expected))
        if not away:
            return frozenset()
        named = frozenset(re.findall(r"[a-z0-9-]+", away["names"])) & frozenset(known)
        return frozenset(known) - named if away["all"] else named


def stories(text: str) -> Iterator[Story]:
    """Yield every pod of a file in the form of the bundled one; raises `BadStory`."""
    for number, document in enumerate(re.split(r"^---\n", text, flags=re.MULTILINE), start=1):
        comment = _STORY.search(document)
        if not comment:
            message = 'needs a comment "# Shows: ..." followed by "# Expected: ..."'
            raise BadStory([Mistake(f"{PODS}, document {number}", message)])
        manifest = yaml.load(document, yaml.CSafeLoader)
        texts = (" ".join(text.replace("\n#", " ").split()) for text in comment.groups())
        yield Story(manifest, *texts)


def read(name: str) -> str:
    """Return the text of a bundled file."""
    return (DATA / name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ComparedPod:
    """A pod's expected and actual outcome, and how the rules explain it: None if it cannot be read."""

    story: Story
    outcome: PodOutcome
    explained: Explanation | None
    kept_away_from: frozenset[str]
    differences: tuple[str, ...]


async def review(
    stories: list[Story], cluster: ClusterView, state: SchedulerState, post: Post, writer: TextWriter
) -> tuple[OutcomeCounts, int]:
    """Have every pod reviewed and show it; return the counts, and how many outcomes are not as expected."""
    counts, differing = OutcomeCounts(), 0
    for number, story in enumerate(stories, start=1):
        outcome = await admit(post, story.manifest, uid=f"small-{number:02}")
        pod = compare(story, outcome, cluster, state)
        counts.add(outcome)
        differing += bool(pod.differences)
        _show(pod, f"{number}/{len(stories)}", writer)
    return counts, differing


def compare(story: Story, outcome: PodOutcome, cluster: ClusterView, state: SchedulerState) -> ComparedPod:
    """Collect what is known about one pod, and compare it with what is expected."""
    away = excluded(outcome, cluster)
    explained = None
    with contextlib.suppress(BadInput):
        pod = pods.pod(story.manifest)
        decided = cluster.decide(story.manifest, name=pod.name, namespace=pod.namespace)
        explained = explanation.explain(decided, cluster, state)
    differences = []
    if outcome.outcome != story.outcome:
        differences.append(f"the outcome is {words(outcome.outcome)}, not {words(story.outcome)}")
    expected = story.keeps_away_from({node.name for node in cluster.cluster.nodes})
    if away != expected:
        names, wanted = some(sorted(away)) or "no node", some(sorted(expected)) or "none"
        differences.append(f"it keeps away from {names}, not {wanted}")
    return ComparedPod(story, outcome, explained, away, tuple(differences))


def excluded(outcome: PodOutcome, cluster: ClusterView) -> frozenset[str]:
    """Return the nodes whose class the stored pod's affinity excludes."""
    classes = {
        value
        for term in _terms(outcome.stored or {})
        for expression in term.get("matchExpressions", ())
        if (expression["key"], expression["operator"]) == (CLASS_LABEL, "NotIn")
        for value in expression["values"]
    }
    return frozenset(node.name for node in cluster.cluster.nodes if node_class(node) in classes)


def _terms(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    affinity = pod.get("spec", {}).get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms: Iterable[Mapping[str, Any]] = required.get("nodeSelectorTerms", ())
    return terms


def placed_on(manifest: Mapping[str, Any]) -> str | None:
    """Return the node that a pod names itself, or as the pod of a DaemonSet; None if a scheduler chooses."""
    for term in _terms(manifest):
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    name: str | None = manifest["spec"].get("nodeName")
    return name


def words(outcome: frozenset[str]) -> str:
    """Return an outcome as it is written in the bundled file."""
    return ", ".join(word for word in ("denied", "admitted", "patched", "warned") if word in outcome)


def _show(pod: ComparedPod, number: str, writer: TextWriter) -> None:
    metadata, outcome, stored = pod.story.manifest["metadata"], pod.outcome, pod.outcome.stored

    def entry(label: str, text: str, *, style: str = "") -> None:
        writer.entry(f"  {label}", text, indent=INDENT, style=style, label_style="dim")

    style = "red" if stored is None else "green"
    writer.entry(f"{number:<6}", f"{metadata['namespace']}/{metadata['name']}", indent=6, style="bold")
    entry("shows", pod.story.shows)
    if pod.explained:
        asking = pod.explained.pod
        steps = "; ".join(
            f"{step.role} {step.container} {amounts(quantities(step.requests)) or 'nothing to pin'}"
            for step in asking.demand.steps
        )
        entry("pod", f"{intent_text(asking)}. {asking.demand.qos}: {steps}")
    entry("verdict", words(outcome.outcome), style=style)
    if outcome.operations and stored is not None:
        # The injected affinity, and the nodes of the classes that it excludes.
        text = yaml.safe_dump(stored["spec"]["affinity"], sort_keys=False)
        for at, line in enumerate(text.splitlines()):
            label = "" if at else "  affinity"
            writer.write(Text.assemble((f"{label:<{INDENT}}", "dim"), (line, "cyan")))
        entry("excludes", some(sorted(pod.kept_away_from), most=10))
    if stored is None:
        for at, cause in enumerate(outcome.causes or (outcome.message,)):
            entry("" if at else "reason", cause, style=style)
    for warning in outcome.warnings:
        entry("warning", warning, style="yellow")
    for at, line in enumerate(_zones(pod)):
        entry("" if at else "zones", line)
    if pod.differences:
        entry("EXPECTED", f"{pod.story.expected} But {', and '.join(pod.differences)}.", style="red")
    else:
        entry("expected", f"{pod.story.expected} That is what happened.", style="dim")
    writer.write("")


def _zones(pod: ComparedPod) -> Iterator[str]:
    """Yield the zones that an admitted pod would get, in one line for all nodes with the same answer."""
    if pod.explained is None or pod.outcome.stored is None:
        return
    only, alike = placed_on(pod.story.manifest), dict[str, list[str]]()
    for answer in pod.explained.answers:
        if answer.node.name == only or (only is None and answer.chance is not Chance.NEVER):
            if answer.placement is not None:
                sentence = f"{zones(answer.placement)} (score {answer.score})"
            else:
                sentence = f"{'never' if answer.chance is Chance.NEVER else 'not now'}: {answer.reason}"
            alike.setdefault(sentence, []).append(answer.node.name)
    for sentence, names in alike.items():
        yield f"{', '.join(names)}: {sentence}"
