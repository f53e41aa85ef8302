"""The pods that would have to move, as text: the answer first, then each node with its pods."""

from kubectl_numa.lines import TextWriter, counted, full_name, zones
from kubectl_numa.moving import listed, named, summary
from kubectl_numa.pages import intent_text
from kubectl_numa.questions import PodDecision
from numalign.kube.decode import placements
from numalign.model.placement import Held
from numalign.scheduling.defragmentation import EXHAUSTIVE, Advice, Hindrance, Plan, Remedy, Resident

_INDENT = 10
_INNER = 16
_MOST_STAYING = 8

_STYLES = {
    Remedy.FITS: "green",
    Remedy.WAITS: "green",
    Remedy.MOVES: "yellow",
    Remedy.STUCK: "red",
    Remedy.NEVER: "red",
}


def show(pod: PodDecision, advice: Advice, writer: TextWriter, *, now: float, never: str = "") -> None:
    """Write the whole advice; `now` is in seconds since 1970, `never` is why no node ever takes the pod."""
    writer.entry("", f"{full_name(pod.namespace, pod.name)} {intent_text(pod)}", indent=0, style="bold")
    writer.entry("  ", summary(advice), indent=2, style=_STYLES[advice.remedy])
    if never:
        writer.entry("  never:", never, indent=_INDENT, label_style="red")
    for plan in advice.plans:
        _plan(plan, writer, now=now)
    for hindrance in advice.hindrances:
        _hindrance(hindrance, writer)
    if words := certainty(advice):
        writer.write("")
        writer.entry("  ", words, indent=2, style="dim")


def certainty(advice: Advice) -> str:
    """Return whether there may be a better plan; "" if none was looked for."""
    if advice.remedy in (Remedy.FITS, Remedy.NEVER) or not advice.candidates:
        return ""
    if advice.plans:
        sure = "moving fewer or less important pods would not be enough"
        perhaps = "moving fewer or less important pods may be enough: not all combinations were tried"
        return sure if advice.proven else perhaps
    return "" if advice.proven else f"not all combinations of more than {EXHAUSTIVE} pods were tried"


def _plan(plan: Plan, writer: TextWriter, *, now: float) -> None:
    writer.write("")
    writer.entry("  room on ", plan.node, indent=_INDENT, style="bold")
    for pod in plan.leaving:
        writer.entry("    wait", f"for {named(pod)}, which is being deleted", indent=_INDENT)
    for move in plan.moves:
        if not move.after:
            _move("move", move.resident, f"to {move.node}", move.prediction.held, writer, now=now)
    writer.entry("    then", f"the pod gets {_gets(plan.held)}", indent=_INDENT)
    for move in plan.moves:
        if move.after:
            back = f"back to {move.node}, after the pod was placed"
            _move("move", move.resident, back, move.prediction.held, writer, now=now)


def _move(label: str, pod: Resident, to: str, held: Held | None, writer: TextWriter, *, now: float) -> None:  # noqa: PLR0913  one line
    words = f"{named(pod)} (priority {pod.priority:,}{_age(pod, now)})"
    writer.entry(f"    {label}", words, indent=_INDENT)
    writer.entry("", f"{to}: {_gets(held or {})}", indent=_INNER)


def _hindrance(hindrance: Hindrance, writer: TextWriter) -> None:
    writer.write("")
    writer.entry("  not on ", hindrance.node, indent=_INDENT, style="bold")
    if hindrance.unplaced:
        words = f"{listed(hindrance.unplaced)} would have to move, but there is no place for all of them"
        writer.entry("    why", words, indent=_INDENT)
    elif hindrance.reason:
        writer.entry("    why", f"{hindrance.reason}, even if all pods that may move did", indent=_INDENT)
    for pod in hindrance.staying[:_MOST_STAYING]:
        writer.entry("    stays", f"{named(pod)}: {pod.obstacle}", indent=_INDENT)
    if (more := len(hindrance.staying) - _MOST_STAYING) > 0:
        writer.entry("    stays", f"and {counted(more, 'more pod')}", indent=_INDENT)


def _gets(held: Held) -> str:
    return zones(placements.render_held(held))


def _age(pod: Resident, now: float) -> str:
    if not pod.created:
        return ""
    seconds = max(0, int(now - pod.created))
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    size, unit = next(((size, unit) for size, unit in units if seconds >= size), (1, "s"))
    return f", {seconds // size}{unit} old"
