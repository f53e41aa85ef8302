"""
Part one: a cluster small enough to check by hand, and a pod for each thing worth knowing.

Every pod is shown with what the webhook made of it and with the zones that it would get, and the whole is
compared with what stands above the pod in the bundled file. A difference is shown and ends the demo with 1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from rich.text import Text

from examples.demo.bundled import Story
from examples.demo.calls import Answer, Post, admit
from examples.demo.tally import Tally
from kubectl_numa import explanation, questions
from kubectl_numa.explanation import Answer as NodeAnswer
from kubectl_numa.explanation import Chance, Explanation, quantities
from kubectl_numa.lines import Paper, amounts, some, zones
from kubectl_numa.pages import wish
from kubectl_numa.questions import Cluster
from numalign.kube.decode import pods
from numalign.model.errors import BadInput
from numalign.model.intent import CLASS_LABEL

INDENT = 12


@dataclass(frozen=True, slots=True)
class Told:
    """A pod of the demo: what should become of it, what did, and how far the rules explain it.

    `explained` is None for a pod that cannot be read.
    """

    story: Story
    answer: Answer
    explained: Explanation | None
    kept_away_from: frozenset[str]
    differences: tuple[str, ...]


async def review(stories: list[Story], cluster: Cluster, post: Post, paper: Paper) -> tuple[Tally, int]:
    """Ask about every pod and show it; the counts, and how many pods differ from what was expected."""
    tally, differing = Tally(), 0
    for number, story in enumerate(stories, start=1):
        answer = await admit(post, story.manifest, uid=f"small-{number:02}")
        told = tell(story, answer, cluster)
        tally.add(answer)
        differing += bool(told.differences)
        _show(told, f"{number}/{len(stories)}", paper)
    return tally, differing


def tell(story: Story, answer: Answer, cluster: Cluster) -> Told:
    """Put together what is known of one pod, and compare it with what was expected."""
    away = excluded(answer, cluster)
    return Told(
        story, answer, _explained(story, cluster), away, tuple(_differences(story, answer, away, cluster))
    )


def excluded(answer: Answer, cluster: Cluster) -> frozenset[str]:
    """The nodes whose class the stored pod's affinity excludes."""
    classes = set(_classes(answer.stored or {}))
    nodes = cluster.fleet.nodes
    return frozenset(node.name for node in nodes if cluster.fleet.class_of(node) in classes)


def _terms(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The terms of the required node affinity."""
    affinity = pod.get("spec", {}).get("affinity", {}).get("nodeAffinity", {})
    terms: Iterable[Mapping[str, Any]] = affinity.get(
        "requiredDuringSchedulingIgnoredDuringExecution", {}
    ).get("nodeSelectorTerms", ())
    return terms


def _classes(pod: Mapping[str, Any]) -> Iterator[str]:
    for term in _terms(pod):
        for expression in term.get("matchExpressions", ()):
            if (expression["key"], expression["operator"]) == (CLASS_LABEL, "NotIn"):
                yield from expression["values"]


def _explained(story: Story, cluster: Cluster) -> Explanation | None:
    try:
        pod = pods.pod(story.manifest)
        asked = questions.ask(story.manifest, cluster, name=pod.name, namespace=pod.namespace)
    except BadInput:
        return None
    return explanation.explain(asked, cluster)


def _differences(story: Story, answer: Answer, away: frozenset[str], cluster: Cluster) -> Iterator[str]:
    if answer.outcome != story.outcome:
        yield f"the outcome is {words(answer.outcome)}, not {words(story.outcome)}"
    expected = story.keeps_away_from({node.name for node in cluster.fleet.nodes})
    if away != expected:
        yield f"it keeps away from {some(sorted(away)) or 'no node'}, not {some(sorted(expected)) or 'none'}"


def words(outcome: frozenset[str]) -> str:
    """An outcome as it is written in the bundled file."""
    order = ("denied", "admitted", "patched", "warned")
    return ", ".join(word for word in order if word in outcome)


def _show(told: Told, number: str, paper: Paper) -> None:
    metadata, answer = told.story.manifest["metadata"], told.answer
    style = "red" if answer.stored is None else "green"
    paper.entry(f"{number:<6}", f"{metadata['namespace']}/{metadata['name']}", indent=6, style="bold")
    _entry(paper, "shows", told.story.shows)
    if told.explained:
        _entry(paper, "pod", _asks(told.explained))
    _entry(paper, "verdict", words(answer.outcome), style=style)
    _affinity(told, paper)
    if answer.stored is None:
        _entry(paper, "reason", "\n".join(answer.causes) or answer.message, style=style)
    for warning in answer.warnings:
        _entry(paper, "warning", warning, style="yellow")
    for at, line in enumerate(_zones(told)):
        _entry(paper, "" if at else "zones", line)
    _expected(told, paper)
    paper.write("")


def _expected(told: Told, paper: Paper) -> None:
    if told.differences:
        said = f"{told.story.expected} But {', and '.join(told.differences)}."
        _entry(paper, "EXPECTED", said, style="red")
    else:
        _entry(paper, "expected", f"{told.story.expected} So it is.", style="dim")


def _entry(paper: Paper, label: str, words: str, *, style: str = "") -> None:
    paper.entry(f"  {label}", words, indent=INDENT, style=style, label_style="dim")


def _asks(explained: Explanation) -> str:
    steps = "; ".join(
        f"{step.role} {step.container} {amounts(quantities(step.asks)) or 'nothing to pin'}"
        for step in explained.asked.demand.steps
    )
    return f"{wish(explained.asked)}. {explained.asked.demand.qos}: {steps}"


def _affinity(told: Told, paper: Paper) -> None:
    """The injected affinity as YAML, and the nodes behind the classes."""
    if not told.answer.operations or told.answer.stored is None:
        return
    text = yaml.safe_dump(told.answer.stored["spec"]["affinity"], sort_keys=False)
    for number, line in enumerate(text.splitlines()):
        label = "" if number else "  affinity"
        paper.write(Text.assemble((f"{label:<{INDENT}}", "dim"), (line, "cyan")))
    _entry(paper, "so not on", some(sorted(told.kept_away_from), most=10))


def _zones(told: Told) -> Iterator[str]:
    """The zones that an admitted pod would get: nodes that say the same in one line."""
    if told.explained is None or told.answer.stored is None:
        return
    only, alike = placed_on(told.story.manifest), dict[str, list[str]]()
    for answer in told.explained.answers:
        if answer.node.name == only or (only is None and answer.chance is not Chance.NEVER):
            alike.setdefault(_says(answer), []).append(answer.node.name)
    for says, names in alike.items():
        yield f"{', '.join(names)}: {says}"


def _says(answer: NodeAnswer) -> str:
    if answer.placement is not None:
        return f"{zones(answer.placement)} (score {answer.score})"
    return f"{'never' if answer.chance is Chance.NEVER else 'not now'}: {answer.reason}"


def placed_on(manifest: Mapping[str, Any]) -> str | None:
    """The node that a pod names, as itself or as the pod of a DaemonSet; None if a scheduler chooses."""
    for term in _terms(manifest):
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    name: str | None = manifest["spec"].get("nodeName")
    return name
