"""
An explanation as a person reads it: what the pod asks, what comes of it, then every group of nodes.

The answer stands above its reasons, and a person who only wants to know whether stops after three lines.
"""

from collections import Counter

from kubectl_numa.explanation import Absent, Answer, Chance, Explanation, Group, groups, quantities
from kubectl_numa.lines import Paper, amounts, counted, some, zones
from kubectl_numa.nodemap import draw, how_known
from kubectl_numa.questions import Asked
from numalign.cache.pod_question import StatedBy
from numalign.decision import wording
from numalign.decision.doubts import SENTENCES, Doubt
from numalign.kube.decode import placements
from numalign.model.demand import Step

STYLES = {
    Chance.FITS: "green",
    Chance.LATER: "yellow",
    Chance.UNANSWERED: "yellow",
    Chance.NEVER: "red",
}

_INDENT = 13
_DECIDED = 11
_INNER = 19


def show(explanation: Explanation, paper: Paper, *, now: float) -> None:
    """The whole explanation; `now` is in seconds since 1970."""
    asked = explanation.asked
    paper.entry("", f"{asked.namespace}/{asked.name} {wish(asked)}", indent=0, style="bold")
    for step in asked.demand.steps:
        paper.entry(f"  {step.role} ", _asks(step), indent=len(step.role) + 3)
    paper.entry("  ", _summary(explanation), indent=2)
    _decided(explanation, paper)
    for group in groups(explanation.answers):
        paper.write("")
        _group(group, paper)
    for absent in explanation.absent:
        paper.write("")
        _absent(absent, paper, now=now)
    if explanation.answers:
        paper.write("")
        paper.entry("  rests on ", _rests_on(explanation), indent=_INDENT, label_style="dim", style="dim")


def show_node(explanation: Explanation, answer: Answer, paper: Paper) -> None:
    """One node in depth: its zones as they are, what the kubelet would do, and what is short where."""
    paper.write("")
    draw(answer.node, answer.node_class, paper)
    placed = placements.render(answer.node, answer.verdict.placement)
    if placed and not answer.verdict.admitted:
        paper.entry("  kubelet would give", zones(placed), indent=_INNER + 2)
    for shortage in answer.verdict.refusal.shortages if answer.verdict.refusal else ():
        paper.entry("  short in", wording.shortage(shortage), indent=_INNER + 2)
    for grant in answer.verdict.placement.grants:
        if grant.affinity is not None:
            stored = f"{grant.role} {grant.container}: {_names(answer, grant.affinity)}"
            preferred = "preferred" if grant.preferred else "not preferred"
            paper.entry("  topology hint", f"{stored}, {preferred}", indent=_INNER + 2)
    paper.entry("  node as a whole", _whole(explanation.asked, answer), indent=_INNER + 2)
    for doubt in answer.verdict.doubts:
        paper.entry("  not told", SENTENCES[doubt], indent=_INNER + 2)


def wish(asked: Asked) -> str:
    """What a pod asks of its placement, in words."""
    if asked.exempt:
        return f"is not looked at: {asked.exempt}. Each node's own policy holds"
    if asked.intent is None:
        return "asks for no alignment. Each node's own policy holds"
    of = f" of {', '.join(asked.intent.resources)}" if asked.intent.resources else ""
    scope = f", scope {asked.intent.scope}" if asked.intent.scope else ""
    by = " by its namespace's default" if asked.by is StatedBy.NAMESPACE else ""
    return f"asks for {asked.intent.policy}{of}{scope}{by}"


def _asks(step: Step) -> str:
    asks = amounts(quantities(step.asks)) or "nothing that a kubelet would pin"
    loose = f" ({', '.join(step.loose)} shared, never pinned)" if step.loose else ""
    return f'"{step.container}": {asks}{loose}'


def _summary(explanation: Explanation) -> str:
    total, fits = len(explanation.answers), explanation.count(Chance.FITS)
    later, never = explanation.count(Chance.LATER), explanation.count(Chance.NEVER)
    unanswered = explanation.count(Chance.UNANSWERED)
    if not total:
        return "no node publishes its topology, so nothing can be said"
    parts = [f"fits on {fits:,} of {counted(total)} now"]
    parts += [f"on {later:,} later"] if later else []
    parts += [f"on {never:,} never"] if never else []
    parts += [f"{unanswered:,} not answered"] if unanswered else []
    unknown = explanation.unknown
    hidden = f"; no topology is published by {some(unknown)}" if unknown else ""
    return f"{', '.join(parts)}{hidden}"


def _decided(explanation: Explanation, paper: Paper) -> None:
    """What the webhook says to the pod."""
    decision = explanation.asked.decision
    if decision.refusal:
        paper.entry("  denied:", decision.refusal, indent=_DECIDED, style="red", label_style="red")
    if explanation.never:
        paper.entry("  never:", explanation.never, indent=_DECIDED, style="red", label_style="red")
    for warning in decision.all_warnings:
        paper.entry("  warning:", warning, indent=_DECIDED, style="yellow", label_style="yellow")


def _absent(absent: Absent, paper: Paper, *, now: float) -> None:
    """A shape of which no node is here."""
    shape = absent.known.shape
    paper.entry(
        f"  {absent.chance:<6}",
        f"no node, {how_known(absent.known, now=now)}",
        indent=_INDENT,
        label_style=STYLES[absent.chance],
        style="bold",
    )
    head = " " * _INDENT
    paper.entry(f"{head}class", shape.node_class, indent=_INNER, label_style="dim", style="dim")
    if absent.reason:
        paper.entry(f"{head}why", absent.reason, indent=_INNER, label_style="dim")


def _group(group: Group, paper: Paper) -> None:
    answer = group.answer
    score = "" if answer.score is None else f"{answer.score:>3}"
    paper.entry(
        f"  {answer.chance:<6} {score}",
        some(group.names),
        indent=_INDENT,
        label_style=STYLES[answer.chance],
        style="bold",
    )
    head = " " * _INDENT
    paper.entry(f"{head}class", answer.node_class, indent=_INNER, label_style="dim", style="dim")
    if answer.placement is not None:
        paper.entry(f"{head}gets", zones(answer.placement), indent=_INNER, label_style="dim")
    if answer.reason:
        label = "now" if answer.chance is Chance.LATER else "why"
        paper.entry(f"{head}{label}", answer.reason, indent=_INNER, label_style="dim")


def _rests_on(explanation: Explanation) -> str:
    """What was known of the nodes, and in a word each what else could count."""
    levels = Counter(answer.verdict.known for answer in explanation.answers)
    doubts = {doubt for answer in explanation.answers for doubt in answer.verdict.doubts}
    known = ", ".join(f"{level} of {counted(count)}" for level, count in levels.most_common())
    missing = ", ".join(doubt.value.replace("-", " ") for doubt in Doubt if doubt in doubts)
    return f"{known}; not told: {missing}" if missing else known


def _names(answer: Answer, ids: tuple[int, ...]) -> str:
    return ", ".join(zone.name for zone in answer.node.zones if zone.id in ids)


def _whole(asked: Asked, answer: Answer) -> str:
    totals = answer.node.totals
    wanted = amounts(quantities(asked.demand.total)) or "nothing"
    if totals is None:
        return f"asked {wanted}; what it has in all nobody told"
    has = {name: totals.get(name, 0) for name in asked.demand.total}
    return f"asked {wanted}; allocatable {amounts(quantities(has)) or 'nothing'}"
