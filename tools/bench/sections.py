"""
The results of each part of a run as rows, with the targets of their figures.

A section depends on the document of its part only.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypedDict

from tools.bench.figures import MILLI
from tools.bench.rows import Row
from tools.bench.targets import (
    AGENT_LATE_MS,
    AGENT_MIB,
    AGENT_PERCENT,
    AIMED_AT,
    BINDS,
    BY_RULES,
    CHURN_MS,
    COMMANDS_S,
    CORES,
    EXTENDER_HANDLER_MS,
    EXTENDER_MS,
    FIRST_REVIEW_MS,
    HANDLER_MS,
    KEPT_UP,
    LAG_MS,
    MAKES_RATIO,
    NAMED,
    NODE_KIB,
    READY_S,
    STALENESS_MS,
    START_MIB,
    WARM_MS,
    WEBHOOK_MIB,
    Named,
)

Raw = Mapping[str, Any]

NO_FLOOR = "no go here"


def cell_of(columns: Raw, named: Named, nodes: int) -> Raw | None:
    """Return the figures of a case; None if it was not measured."""
    wanted = {"nodes": nodes, "zones": named.zones, "policy": named.policy, "needed": named.needed}
    return next((cell for cell in columns["cells"] if wanted.items() <= cell.items()), None)


def _named(columns: Raw, nodes: int) -> Iterator[tuple[Named, Raw]]:
    found = ((named, cell_of(columns, named, nodes)) for named in NAMED)
    return ((named, cell) for named, cell in found if cell)


def median(found: Raw | None) -> float:
    """Return the median; infinity if it was not measured, as it takes too long."""
    return found["median"] if found else math.inf


class Beside(TypedDict, total=False):
    """Keyword arguments of a row with a figure to compare with."""

    beside: float
    beside_what: str


def _beside_floor(cell: Raw, key: str) -> Beside:
    """Return the figure of plain Go, a note if Go is missing, or nothing if it has no such figure."""
    floor = cell["floor"]
    if not floor:
        return {"beside_what": NO_FLOOR}
    return {"beside": floor[key]["median"], "beside_what": "in Go"} if floor[key] else {}


MIXED = {
    "verdicts_ms": "cold verdicts",
    "scores_ms": "cold, with scores",
    "warm_ms": "warm verdicts",
    "warm_scores_ms": "warm, with scores",
}


def _mixed(found: Raw) -> Iterator[Row]:
    """Yield fleets compared with one make, the usual fleet first.

    Comparisons with plain Go follow, then fleets of other sizes, and those with machines described.
    """
    here = [cell for cell in found["mixed"] if cell["nodes"] == found["judged_at"]]
    one = {cell["asks"]: cell for cell in here if cell["makes"] == 1}
    usual = [cell for cell in here if cell["makes"] == found["usual"]]
    others = [cell for cell in here if cell["makes"] not in {1, found["usual"]}]
    for cell in (*usual, *others):
        for key, what in MIXED.items():
            beside = median(one[cell["asks"]][key]) if one else None
            target = MAKES_RATIO * beside if beside and cell in usual else None
            named = f"{what}, {cell['makes']} makes, {_ASKS[cell['asks']]}"
            yield Row(named, median(cell[key]), "ms", beside, "of 1 make", target)
    for cell in here:
        if cell["floor"]:
            named = f"cold verdicts, {_of_makes(str(cell['makes']))}, {_ASKS[cell['asks']]}, plain Go"
            yield Row(named, median(cell["verdicts_ms"]), "ms", **_beside_floor(cell, "verdicts_ms"))
    for cell in found["mixed"]:
        if cell not in here:
            named = f"cold verdicts, {cell['nodes']:,} nodes, {cell['makes']} makes, {_ASKS[cell['asks']]}"
            yield Row(named, median(cell["verdicts_ms"]), "ms")
    counted = {cell["asks"]: cell for cell in usual}
    for cell in found.get("described", []):
        for key, what in MIXED.items():
            beside = median(counted[cell["asks"]][key]) if counted else None
            named = f"{what}, {cell['makes']} makes, machines described, {_ASKS[cell['asks']]}"
            yield Row(named, median(cell[key]), "ms", beside, "of counts")


_ASKS = {"none": "pods without a policy", "single-numa-node": "pods that need one zone"}


def _openb(found: Raw) -> Iterator[Row]:
    for what in ("verdicts", "scores"):
        for key in ("mean", "p50", "p99"):
            yield Row(f"{what}, {key}", found[what]["ms"][key], "ms")
    for what in ("verdicts", "scores"):
        share = 100 * found[what]["by_rules"]
        yield Row(f"pairs that the rules were asked about, {what}", share, "%", target=BY_RULES)


def _cold(columns: Raw) -> Iterator[Row]:
    for named, cell in _named(columns, columns["judged_at"]):
        for key, what, target in (
            ("verdicts_ms", "cold verdicts", named.verdicts),
            ("scores_ms", "cold, with scores", named.scores),
        ):
            beside = _beside_floor(cell, key)
            yield Row(f"{what}, {named.title}", median(cell[key]), "ms", target=target, **beside)
    for named, cell in _named(columns, columns["judged_at"]):
        beside = Beside(beside=median(cell["verdicts_ms"]), beside_what="in columns")
        yield Row(f"by the rules, one by one, {named.title}", cell["rules_ms"], "ms", **beside)


def _warm(columns: Raw) -> Iterator[Row]:
    for named, cell in _named(columns, columns["judged_at"]):
        for key, cold, what, target in (
            ("warm_ms", "verdicts_ms", "warm verdicts", WARM_MS),
            ("warm_scores_ms", "scores_ms", "warm, with scores", None),
        ):
            beside = Beside(beside=median(cell[cold]), beside_what="cold")
            yield Row(f"{what}, {named.title}", median(cell[key]), "ms", target=target, **beside)
        yield Row(f"updates, {named.title}", cell["updates_per_s"], "nodes/s")


def _growth(columns: Raw) -> Iterator[Row]:
    sizes = sorted({cell["nodes"] for cell in columns["cells"]})
    least, most = sizes[0], sizes[-1]
    for (named, small), (_, large) in zip(_named(columns, least), _named(columns, most), strict=True):
        few, many = (cell["verdicts_ms"]["median"] * 1000 / cell["nodes"] for cell in (small, large))
        what = f"a node of {most:,}, verdicts, {named.title}"
        yield Row(what, many, "µs", beside=few, beside_what=f"of {least:,}", target=few)
    for found in columns["memory"]:
        whole, alone = found["nodes_kib"] + found["cache_kib"], found["nodes_kib"]
        beside = Beside(beside=alone, beside_what="without the columns")
        yield Row(f"memory of a node of {found['zones']} zones", whole, "KiB", target=NODE_KIB, **beside)


def _grid(columns: Raw) -> Iterator[Row]:
    for cell in columns["cells"]:
        takes = "" if cell["needed"] == 1 else f", {cell['needed']} needed"
        what = f"{cell['nodes']:,} nodes, {cell['zones']} zones, {cell['policy']}{takes}"
        yield Row(what, cell["verdicts_ms"]["median"], "ms", **_beside_floor(cell, "verdicts_ms"))


def _extender(found: Raw) -> Iterator[Row]:
    for makes, fleet in found["fleets"].items():
        for names in sorted(map(int, fleet["handler_ms"])):
            yield from _calls(f"{names:,} names, {_of_makes(makes)}", names, fleet)
    yield from _first_calls(found["fleets"])
    for makes, fleet in found["fleets"].items():
        peak = Beside(beside=fleet["rss_mib"]["most"], beside_what="at the peak")
        yield Row(f"scorer, resident, {_of_makes(makes)}", fleet["rss_mib"]["now"], "MiB", **peak)


def _of_makes(makes: str) -> str:
    return "1 make" if makes == "1" else f"{makes} makes"


def _calls(of_what: str, names: int, fleet: Raw) -> Iterator[Row]:
    for verb, trips in fleet["round_trips_ms"][str(names)].items():
        handler = fleet["handler_ms"][str(names)][verb]
        for (phase, said), key in product(PHASES.items(), ("p50", "p99")):
            what, target = f"{verb}, {of_what}, {said}, {key}", EXTENDER_MS.get((phase, names, key))
            inside = Beside(beside=handler[phase][key], beside_what="in the handler")
            yield Row(what, trips[phase][key], "ms", target=target, **inside)
            if target := EXTENDER_HANDLER_MS.get((phase, names, key)):
                yield Row(f"{what}, in the handler", handler[phase][key], "ms", target=target)


PHASES = {"first": "first of a template", "again": "again"}


def _first_calls(fleets: Raw) -> Iterator[Row]:
    """Yield first calls of the first fleet compared with the others, for their numbers of names."""
    (makes, first), *others = fleets.items()
    for other, fleet in others:
        for names, verbs in fleet["round_trips_ms"].items():
            for verb, trips in verbs.items():
                what = f"{verb}, {int(names):,} names, first of a template, {_of_makes(makes)}, p50"
                beside = Beside(beside=trips["first"]["p50"], beside_what=f"of {_of_makes(other)}")
                yield Row(what, first["round_trips_ms"][names][verb]["first"]["p50"], "ms", **beside)


def _rate(found: Raw) -> Iterator[Row]:
    for name, cell in found["cells"].items():
        yield Row(cell["title"], cell["binds_per_second"], "pods/s")
        for key, whom, target in (
            ("to_empty", "the empty extender", BINDS if name in AIMED_AT else None),
            ("to_python", "the empty one in Python", None),
            ("to_none", "no extender", None),
        ):
            if cell[key] is not None:
                yield Row(f"{cell['title']}: to {whom}", cell[key], "", target=target, over=True)


def _webhook(found: Raw) -> Iterator[Row]:
    for run in found["runs"]:
        fastest, asked = run is found["runs"][-1], run["asked_per_s"]
        least = KEPT_UP * asked if fastest else None
        yield Row(f"answered of {asked} reviews/s", run["reviews_per_s"], "per s", target=least, over=True)
        for key, target in HANDLER_MS.items():
            inside, trip = run["handler_ms"][key], run["round_trip_ms"][key]
            yield Row(f"round trip at {asked} reviews/s, {key}", trip, "ms", inside, "in the handler")
            what = f"handler at {asked} reviews/s, {key}"
            yield Row(what, inside, "ms", target=target if fastest else None)
    for (path, cost), key in product(found["templates_ms"].items(), ("p50", "p99")):
        what, again = f"{path}, first of a template, round trip {key}", cost["repeated_ms"][key]
        yield Row(what, cost["first_ms"][key], "ms", again, "again", FIRST_REVIEW_MS.get(key))
    if lag := found["first_lag_ms"]:
        yield Row("lag of the loop at first reviews, max", lag["max"], "ms")
    peak = Beside(beside=found["rss_mib"]["most"], beside_what="at the peak")
    yield Row("webhook, resident", found["rss_mib"]["now"], "MiB", target=WEBHOOK_MIB, **peak)


def _churn(found: Raw) -> Iterator[Row]:
    churn, quiet, least = found["churn"], found["quiet"], KEPT_UP * found["churn"]["asked_per_s"]
    asked = f"reviews of {churn['asked_per_s']} a second, answered"
    yield Row(asked, churn["reviews_per_s"], "per s", target=least, over=True)
    for key in ("p50", "p99", "max"):
        still = Beside(beside=quiet["round_trip_ms"][key], beside_what="if nothing changes")
        yield Row(f"round trip, {key}", churn["round_trip_ms"][key], "ms", target=CHURN_MS.get(key), **still)
    for key in ("p50", "p99"):
        trip = Beside(beside=churn["round_trip_ms"][key], beside_what="round trip")
        yield Row(f"handler, {key}", churn["handler_ms"][key], "ms", **trip)
    for key, late in (churn["staleness_ms"] or {}).items():
        yield Row(
            f"from a change to the answer that shows it, {key}", late, "ms", target=STALENESS_MS.get(key)
        )
    still = Beside(beside=quiet["cores"]["webhook"], beside_what="if nothing changes")
    yield Row("processors, webhook", churn["cores"]["webhook"], "cores", target=CORES, **still)
    if churn["lag_ms"]:
        yield Row("lag of the webhook's loop, max", churn["lag_ms"]["max"], "ms", target=LAG_MS)
    peak = Beside(beside=found["rss_mib"]["most"], beside_what="at the peak")
    yield Row("resident, webhook", found["rss_mib"]["now"], "MiB", **peak)


def _binds(found: Raw) -> Iterator[Row]:
    asked = f"pods of {found['load']['rate']:g} a second, bound"
    yield Row(asked, found["pods_per_second"], "per s")
    for verb, trips in found["round_trips_ms"].items():
        for key in ("p50", "p99"):
            yield Row(f"/{verb} while pods come and go, round trip {key}", trips[key], "ms")
    yield Row("processors, scorer", found["cores"], "cores")
    yield Row("processor time of a pod, scorer", found["cpu_ms_per_pod"], "ms")
    for step, called in found["longest_steps_ms"][:1]:
        yield Row(f"longest step of the scorer's loop: {called}", step, "ms", target=LAG_MS)


def _coldstart(found: Raw) -> Iterator[Row]:
    yield Row("from start to ready", found["ready_s"], "s", target=READY_S)
    yield Row("until the pods are read too", found["pods_read_s"], "s")
    yield Row("resident at the peak", found["rss_mib"]["most"], "MiB", target=START_MIB)


_AGENT = {
    "rest": "at rest",
    "full": "with {pods} pods",
    "busy": "with {pods} pods, {rate:g} changes a second",
}


def _agent(found: Raw) -> Iterator[Row]:
    for key, what in _AGENT.items():
        named, taken = what.format_map(found), found[key]
        yield Row(f"resident, {named}", taken["mib"], "MiB", target=AGENT_MIB.get(key))
        yield Row(f"of one processor, {named}", taken["percent"], "%", target=AGENT_PERCENT.get(key))
    for key, took in found["late_ms"].items():
        yield Row(f"from checkpoint to watch, {key}", took, "ms", target=AGENT_LATE_MS[key])


def _commands(found: Raw) -> Iterator[Row]:
    for name, took in found["cpu_ms"].items():
        yield Row(f"kubectl numa {name}", took["median"] / MILLI, "s", target=COMMANDS_S.get(name))


def _rules(found: Raw) -> Iterator[Row]:
    for zones, took in found["ordinary_ms"].items():
        yield Row(f"an ordinary verdict, {zones} zones", took, "ms", target=found["aims_ms"].get(zones))
    yield Row("the longest verdict", found["longest_ms"], "ms", target=found["longest_aim_ms"])


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one part of a run; `said` explains them on the page, and may refer to figures of the part."""

    part: str
    title: str
    said: str
    rows: Callable[[Raw], Iterator[Row]]
    charts: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "makes",
        "Mixed fleets: {judged_at:,} nodes of {usual} makes",
        "Nodes of a make have the same number of zones, policy, scope and hardware model. Makes "
        "alternate, and no two nodes are alike. A pod of one container requests CPUs, memory and a "
        "device; about half of the nodes can take it. The time is processor time of one thread: the "
        "median of {questions} new questions and, warm, of repeated ones after {share:.0%} of the "
        "nodes changed. For machines that are described, numalign knows which CPUs are free and which "
        "zone each device belongs to.",
        _mixed,
    ),
    Section(
        "openb",
        "Pods of a real cluster: {questions:,} questions of {nodes:,} nodes",
        "Pod shapes of the trace that is bundled with the examples, with every policy and scope, on "
        "all shapes of its nodes, split into 1, 2, 4 and 8 zones, under every policy that aligns. "
        "Where columns have no answer, the rules evaluate the node.",
        _openb,
    ),
    Section(
        "columns",
        "Cold: new questions",
        "A pod of one container that requests CPUs, memory and a device, and {judged_at:,} different "
        "nodes, of which about half can take it. One thread, the median of {questions} questions. It "
        "is compared with the same rule in plain Go over the same nodes (`tools/bench/floor`), and with the "
        "rules of `numalign.model`, which evaluate a sample of the nodes one by one, scaled up.",
        _cold,
    ),
    Section(
        "columns",
        "Warm: repeated questions after {share:.0%} of the nodes changed",
        "An update replaces a node, and includes its part of the question after it.",
        _warm,
    ),
    Section(
        "columns",
        "Growth",
        "The time per node in the largest fleet, compared with that in the smallest, and the growth "
        "of a process in memory.",
        _growth,
        ("nodes", "zones"),
    ),
    Section(
        "extender",
        "Extender: {nodes:,} nodes",
        "One keep-alive connection, one pod after another, with new names for each, and {templates} "
        "new templates for each number of names. The time is from sending the request to the last "
        "byte of the answer. It is compared with the handler's own histogram, from the complete "
        "request to the encoded answer.",
        _extender,
        ("names",),
    ),
    Section(
        "rate",
        "The real kube-scheduler",
        "Pods bound per second, starting with a queue of pods. The empty extender is written in Go "
        "and answers at once, so its cost is that of the protocol. The one in Python uses numalign's "
        "server. All programs share the processors of one machine; in some rows the extender has a "
        "processor of its own, as on a separate host.",
        _rate,
    ),
    Section(
        "webhook",
        "Webhook: {nodes:,} nodes of {makes} makes, {templates} templates",
        "AdmissionReviews over TLS: half are mutations of new pods, half validations of the same "
        "pods. The time is from sending the request to the last byte of the answer. It is compared "
        "with the handler's own histogram, from the first byte of the request to the encoded answer.",
        _webhook,
        ("rate",),
    ),
    Section(
        "churn",
        "Webhook: {nodes:,} nodes of {makes} makes, {changes_asked_per_s} topologies change each second",
        "Reviews over TLS as above, while an API server sends changes over a watch. A pod whose "
        "answer depends on one node, where a device is taken and given back, shows how late the "
        "webhook is.",
        _churn,
    ),
    Section(
        "binds",
        "Scorer: {load[nodes]:,} nodes, {load[rate]:g} pods bound each second",
        "Each pod is created, filtered, ranked, bound and admitted by its kubelet, and an API server "
        "sends all of that over a watch. A step of the event loop is measured in processor time.",
        _binds,
    ),
    Section(
        "coldstart",
        "Start of the webhook: {nodes:,} nodes of 26 KB, {pods:,} pods",
        "A separate process plays the API server.",
        _coldstart,
    ),
    Section(
        "agent",
        "The agent on its node",
        "Kubelet: {kubelet}, on a simulated machine of 128 CPUs. The delay is from the moment when "
        "the kubelet records the exclusive CPUs of a pod until a watch of topologies shows them, "
        "while pods come and go.",
        _agent,
    ),
    Section(
        "commands",
        "Commands: {nodes:,} nodes of {makes} makes",
        "Separate processes, from start to end, which read the nodes from a file. Processor time.",
        _commands,
    ),
    Section(
        "rules",
        "One verdict by the rules",
        "A container that requests {resources} resources, and one node.",
        _rules,
    ),
)
GRID = Section("columns", "Cold verdicts by nodes, zones and policy", "", _grid)
