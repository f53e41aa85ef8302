"""
Write an explanation as text: what the pod requests, the result, then every group of nodes.

The result comes before its reasons, so that its first three lines are enough to know whether the pod fits.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, islice

from kubectl_numa.explanation import Explanation, NodeGroup, ShapeAnswer, groups
from kubectl_numa.lines import TextWriter, amounts, counted, full_name, some, zones
from kubectl_numa.nodemap import draw, how_known
from kubectl_numa.questions import PodDecision
from numalign.cache.pod_question import StatedBy
from numalign.decision import wording
from numalign.decision.doubts import SENTENCES, Doubt
from numalign.decision.scoring import HIGHEST, Strategy
from numalign.kube.decode import placements
from numalign.kube.exporters import TopologySource
from numalign.model.resources import quantities, readable_zone
from numalign.scheduling.node_explanation import Chance, NodeExplanation, counted_by_reason

STYLES = {
    Chance.FITS: "green",
    Chance.LATER: "yellow",
    Chance.UNANSWERED: "yellow",
    Chance.NEVER: "red",
}

_INDENT = 13
_INNER = 19
_DEPTH = 21


def show(explanation: Explanation, writer: TextWriter, *, now: float, limit: int | None = None) -> None:
    """Write the whole explanation; `now` is in seconds since 1970.

    Show at most `limit` groups of nodes one by one, the best ones; count the nodes of others.
    """
    pod, decision = explanation.pod, explanation.pod.decision
    if explanation.rejected:
        writer.entry("", explanation.rejected.sentence(now), indent=0, style="red")
    writer.entry("", f"{full_name(pod.namespace, pod.name)} {intent_text(pod)}", indent=0, style="bold")
    for step in pod.demand.steps:
        asks = amounts(quantities(step.requests)) or "nothing that a kubelet would pin"
        loose = f" ({', '.join(step.loose)} shared, never pinned)" if step.loose else ""
        writer.entry(f"  {step.role} ", f'"{step.container}": {asks}{loose}', indent=len(step.role) + 3)
    if pod.handed_over:
        writer.entry("  ", f"would be {pod.handed_over}", indent=2)
    writer.entry("  ", _summary(explanation), indent=2)
    for label, words, style in (
        ("denied", decision.refusal, "red"),
        ("never", explanation.never, "red"),
        ("room", explanation.room, "yellow"),
        *(("warning", warning, "yellow") for warning in explanation.warnings),
    ):
        if words:
            writer.entry(f"  {label}:", words, indent=11, style=style, label_style=style)
    best = [*islice(groups(explanation.answers), limit)]
    for group in best:
        _group(group, explanation.strategy, writer)
    _others(explanation.answers, {*chain.from_iterable(group.names for group in best)}, writer)
    for absent in explanation.absent:
        _head(absent, f"no node, {how_known(absent.known, now=now)}", absent.known.shape.node_class, writer)
        _detail("why", absent.reason, writer)
    if explanation.answers:
        writer.write("")
        writer.entry("  based on ", _basis(explanation), indent=_INDENT, label_style="dim", style="dim")


def show_node(explanation: Explanation, answer: NodeExplanation, writer: TextWriter) -> None:
    """Write one node in detail: its zones, what the kubelet would do, and which zones are short of what."""
    node, verdict, demand = answer.node, answer.verdict, explanation.pod.demand
    writer.write("")
    draw(node, writer, answer.exporter)
    placed = placements.render(node, verdict.placement)
    if placed and not verdict.admitted:
        writer.entry("  would allocate", zones(placed), indent=_DEPTH)
    for shortage in verdict.refusal.shortages if verdict.refusal else ():
        writer.entry("  short in", wording.shortage(shortage), indent=_DEPTH)
    for grant in verdict.placement.grants:
        if grant.affinity is not None:
            names = ", ".join(readable_zone(zone.name) for zone in node.zones if zone.id in grant.affinity)
            preferred = "preferred" if grant.preferred else "not preferred"
            hint = f"{grant.role} {grant.container}: {names}, {preferred}"
            writer.entry("  topology hint", hint, indent=_DEPTH)
    wanted, total = amounts(quantities(demand.total)) or "nothing", "total unknown"
    if node.totals is not None:
        totals = {name: node.totals.get(name, 0) for name in demand.total}
        total = f"allocatable {amounts(quantities(totals)) or 'nothing'}"
    writer.entry("  node as a whole", f"requested {wanted}; {total}", indent=_DEPTH)
    for doubt in verdict.doubts:
        writer.entry("  unknown", SENTENCES[doubt], indent=_DEPTH)


def intent_text(pod: PodDecision) -> str:
    """Return what a pod requests of its placement, in words."""
    if pod.exempt:
        return f"is not checked: {pod.exempt}; each node's kubelet policy applies"
    if pod.intent is None:
        return "requests no NUMA alignment; each node's kubelet policy applies"
    of = f" of {', '.join(pod.intent.resources)}" if pod.intent.resources else ""
    scope = f", scope {pod.intent.scope}" if pod.intent.scope else ""
    alone = ", exclusive in its NUMA zones" if pod.intent.exclusive else ""
    by = " (namespace default)" if pod.by is StatedBy.NAMESPACE else ""
    return f"requests {pod.intent.policy} alignment{of}{scope}{by}{alone}"


def _summary(explanation: Explanation) -> str:
    total, later = len(explanation.answers), explanation.count(Chance.LATER)
    never, unanswered = explanation.count(Chance.NEVER), explanation.count(Chance.UNANSWERED)
    if not total:
        return "no node publishes a NUMA topology, so no node can be evaluated"
    if explanation.over_quota:
        return f"waits for the quota of its namespace: {explanation.over_quota}"
    parts = [f"{explanation.count(Chance.FITS):,} of {counted(total)} can run it now"]
    parts += [f"{later:,} later"] if later else []
    parts += [f"{never:,} never"] if never else []
    parts += [f"{unanswered:,} not evaluated"] if unanswered else []
    unknown = explanation.unknown
    return ", ".join(parts) + (f"; no NUMA topology published by {some(unknown)}" if unknown else "")


def _group(group: NodeGroup, strategy: Strategy, writer: TextWriter) -> None:
    answer = group.answer
    _head(answer, some(group.names), None if answer.lasting else answer.node_class, writer)
    if answer.placement or Doubt.ZONES not in answer.doubts:
        _detail("gets", None if answer.placement is None else zones(answer.placement), writer)
    if answer.score is not None:
        why = answer.rules.why_scored(answer.node, strategy)
        _detail("rank", f"{answer.score} of {HIGHEST}: {why}", writer)
    _detail("now" if answer.chance is Chance.LATER else "why", answer.reason, writer)


def _others(answers: Sequence[NodeExplanation], shown: Collection[str], writer: TextWriter) -> None:
    others = [answer for answer in answers if answer.node.name not in shown]
    if not others:
        return
    writer.write("")
    writer.entry("", f"  and {counted(len(others), 'more node')} (--limit 0 shows them all)", indent=0)
    for count, chance, reason in counted_by_reason(others):
        words = f"{count:>6,} {reason}".rstrip()
        writer.entry(f"  {chance}", words, indent=9, label_style=STYLES[chance])


def _head(
    answer: NodeExplanation | ShapeAnswer, names: str, node_class: str | None, writer: TextWriter
) -> None:
    score = answer.score if isinstance(answer, NodeExplanation) else None
    label = f"  {answer.chance:<6} " + ("" if score is None else f"{score:>3}")
    writer.write("")
    writer.entry(label, names, indent=_INDENT, label_style=STYLES[answer.chance], style="bold")
    _detail("class", node_class, writer, style="dim")


def _detail(label: str, words: str | None, writer: TextWriter, *, style: str = "") -> None:
    if words is not None:
        writer.entry(" " * _INDENT + label, words, indent=_INNER, label_style="dim", style=style)


def _basis(explanation: Explanation) -> str:
    """Return how much was known about the nodes, and what else could matter, in a word each."""
    levels = Counter((answer.node.known, answer.exporter.source) for answer in explanation.answers)
    doubts = {doubt for answer in explanation.answers for doubt in answer.doubts}
    parts: list[str] = []
    for (level, source), count in levels.most_common():
        # That an exporter reported nodes is the usual case.
        agents = " from its agent" if count == 1 else " from their agents"
        parts.append(f"{level} of {counted(count)}{agents if source is TopologySource.AGENT else ''}")
    words = [", ".join(parts)]
    if missing := ", ".join(doubt.value.replace("-", " ") for doubt in Doubt if doubt in doubts):
        words.append(f"unknown: {missing}")
    if silent := sum(answer.exporter.stale for answer in explanation.answers):
        words.append(f"stale: {'the agent' if silent == 1 else 'agents'} of {counted(silent)}")
    return "; ".join(words)
