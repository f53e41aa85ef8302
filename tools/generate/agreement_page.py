"""docs/measurements/agreement.md: how often predictions agree with the kubelet."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.generate import agreement
from tools.generate.agreement import ADMITTED, CHANCE, COLUMNS, DATA, NAIVE, REASON, Decision, Level, Tally

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "agreement.md"


class DisagreementError(Exception):
    """Raised if a prediction for a known machine differs from the kubelet."""


HEAD = """\
# How often predictions agree with the kubelet

Generated and checked by `python -m tools.generate agreement`. The decisions were recorded from the
kubelet's own managers (`tests/kubelet/data/README.md`), of pods that fit the node in total.

| level | what numalign knows of the node |
|---|---|
| machine | cores, sockets, distances, devices, the kubelet's configuration; what earlier pods really got |
| machine, unobserved | the same without what earlier pods got: a wrong prediction would affect later ones |
| configured | amounts as an exporter publishes them, configuration, version, labels; what earlier pods got |
| counts | amounts, policy and scope; what earlier pods got |

*admitted* is compared for every decision, *reason* if both reject the pod, and the rest if both admit it.
If the kubelet picks at random between equal devices of different zones, the prediction says so, and other
amounts count as agreement (*by chance*). *one zone has all* is a filter that knows policy and scope, and
looks for one zone with enough of everything. A decision counts for each option of its kubelet.
"""

ADMITTED_BY = (
    ("policy and scope", agreement.policy),
    ("option", agreement.options),
    ("version of the kubelet", agreement.version),
)


def page(found: Sequence[Decision]) -> str:
    parts = [HEAD, _section("By level", _by_level(agreement.tallied(found, agreement.everything)["all"]))]
    for title, key in ADMITTED_BY:
        parts.append(_section(f"Admitted, by {title}", _admitted(agreement.tallied(found, key), title)))
    parts.append(_section("Doubts of wrong predictions", _causes(found)))
    return "\n".join(parts)


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines, ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), f"|{'---|' * len(cells)}"]


def _by_level(levels: Mapping[Level, Tally]) -> Iterator[str]:
    yield from _head(["level", *COLUMNS, CHANCE])
    for level in Level:
        tally = levels[level]
        yield _row([level, *map(tally.cell, COLUMNS), str(tally.agreed[CHANCE])])
    yield _row([NAIVE, levels[Level.CONFIGURED].cell(NAIVE), *["-"] * len(COLUMNS)])


def _admitted(tallies: Mapping[str, Mapping[Level, Tally]], title: str) -> Iterator[str]:
    yield from _head([title, "decisions", *Level, NAIVE])
    for name in sorted(tallies):
        levels = tallies[name]
        shares = [_share(levels[level], ADMITTED) for level in Level]
        asked = str(levels[Level.MACHINE].asked[ADMITTED])
        yield _row([name, asked, *shares, _share(levels[Level.CONFIGURED], NAIVE)])


def _share(tally: Tally, what: str) -> str:
    return agreement.share(tally.agreed[what], tally.asked[what])


def _causes(found: Sequence[Decision]) -> Iterator[str]:
    """Each doubt that was listed with a wrong prediction, and how often."""
    yield "Every prediction lists its doubts: unknown facts that matter. Wrong predictions listed these:"
    yield ""
    for level in Level:
        wrong = [decision for decision in found if decision.level is level and not decision.found[ADMITTED]]
        reasons = sum(not decision.found.get(REASON, True) for decision in found if decision.level is level)
        silent = sum(not decision.causes for decision in wrong)
        counted = f"{len(wrong)} wrong, {reasons} rejected for another reason; {silent} without a doubt"
        yield f"**{level}**: {counted}"
        named = Counter(cause for decision in wrong for cause in decision.causes)
        yield from (
            f"* {count}: {cause}" for cause, count in sorted(named.items(), key=lambda pair: -pair[1])
        )
        yield ""


def missed(found: Sequence[Decision]) -> dict[str, int]:
    """What differs of a known machine, and how often; nothing must."""
    tally = agreement.tallied(found, agreement.everything)["all"][Level.MACHINE]
    return {what: tally.missed(what) for what in COLUMNS if tally.missed(what)}


def files() -> list[str]:
    return sorted(path.name for path in DATA.glob("kubelet-*.jsonl.gz"))


def every_decision(*names: str) -> list[Decision]:
    recorded = list(agreement.recordings(*names))
    return [found for each in recorded for level in Level for found in agreement.decisions(each, level)]


def text() -> str:
    """Return the page. Raise `DisagreementError` if something of a known machine differs."""
    found = every_decision(*files())
    if wrong := missed(found):
        raise DisagreementError(f"on a known machine, rules and kubelet disagree: {wrong}")
    return page(found)
