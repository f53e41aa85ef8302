"""How a run is told: the table, the page, the charts, and the page that is kept with the sources."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tools.bench import charts, report
from tools.bench.targets import NAMED

DOCS = Path(__file__).parents[4] / "docs" / "measurements"
Raw = dict[str, Any]


def cell(nodes: int, zones: int, policy: str, needed: int = 1) -> Raw:
    times = {"median": 0.5, "best": 0.4}
    floor = {"verdicts_ms": {"median": 0.25, "best": 0.2}, "scores_ms": {"median": 1.0, "best": 1.0}}
    return {
        "nodes": nodes,
        "zones": zones,
        "policy": policy,
        "needed": needed,
        "feasible": nodes // 2,
        "verdicts_ms": times,
        "scores_ms": {"median": 3.5, "best": 3},
        "rules_ms": 5000.0,
        "floor": floor,
        "warm_ms": times,
        "warm_scores_ms": times,
        "updates_per_s": 12_345,
    }


def mixed(makes: int, asks: str, nodes: int = 5000) -> Raw:
    times = {"median": 0.25 * (1 + makes / 12), "best": 0.2}
    floor = {"verdicts_ms": {"median": 0.5, "best": 0.5}, "scores_ms": None}
    return {
        "makes": makes,
        "asks": asks,
        "nodes": nodes,
        "verdicts_ms": times,
        "scores_ms": times,
        "warm_ms": times,
        "warm_scores_ms": times,
        "floor": floor if asks == "none" else None,
    }


def openb() -> Raw:
    times = {"mean": 2.0, **spread(1.5)}
    verdicts, scores = ({"ms": times, "by_rules": share} for share in (0.0, 0.02))
    return {"nodes": 5000, "questions": 242, "verdicts": verdicts, "scores": scores}


def of_makes() -> Raw:
    asked = ("none", "single-numa-node")
    cells = [mixed(makes, asks) for makes in (1, 6, 36) for asks in asked]
    return {
        "share": 0.01,
        "questions": 15,
        "judged_at": 5000,
        "usual": 36,
        "mixed": [*cells, mixed(36, "none", nodes=15_000)],
    }


def columns() -> Raw:
    kinds = [(named.zones, named.policy, named.needed) for named in NAMED]
    return {
        "share": 0.01,
        "questions": 15,
        "judged_at": 5000,
        "cells": [cell(nodes, *kind) for nodes in (1000, 5000, 15_000) for kind in kinds],
        "memory": [{"nodes": 15_000, "zones": 2, "nodes_kib": 3.0, "cache_kib": 0.5}],
    }


def spread(p50: float) -> Raw:
    return {"p50": p50, "p99": 4 * p50, "max": 9 * p50}


def fleet(first: float, *names: int) -> Raw:
    trips, handler = ({"first": spread(first), "again": spread(again)} for again in (1.0, 0.5))
    every = {"round_trips_ms": trips, "handler_ms": handler}
    by_names = {
        what: {str(each): {"filter": cost, "prioritize": cost} for each in names}
        for what, cost in every.items()
    }
    return {"rss_mib": {"now": 100.0, "most": 150.0}, **by_names}


def extender() -> Raw:
    fleets = {"36": fleet(8.0, 5000, 500), "1": fleet(2.0, 500)}
    return {"nodes": 5000, "templates": 60, "fleets": fleets}


def webhook() -> Raw:
    took = {"handler_ms": spread(0.4), "round_trip_ms": spread(0.8)}
    runs = [{"asked_per_s": rate, "reviews_per_s": 400, **took} for rate in (100, 500)]
    cost = {"first_ms": spread(20.0), "repeated_ms": spread(1.0)}
    return {
        "nodes": 15_000,
        "makes": 36,
        "templates": 100,
        "first_lag_ms": spread(1.0),
        "runs": runs,
        "templates_ms": {"/mutate": cost},
        "rss_mib": {"now": 260.0, "most": 300.0},
    }


def churn() -> Raw:
    def period(trip: float, cores: float, lag: float | None) -> Raw:
        return {
            "asked_per_s": 500,
            "reviews_per_s": 499.0,
            "round_trip_ms": spread(trip),
            "handler_ms": spread(trip / 2),
            "staleness_ms": spread(200.0),
            "cores": {"webhook": cores},
            "lag_ms": lag and spread(lag),
        }

    return {
        "nodes": 15_000,
        "makes": 36,
        "changes_asked_per_s": 250,
        "quiet": period(1.0, 0.25, None),
        "churn": period(1.5, 0.75, 0.3),
        "rss_mib": {"now": 200.0, "most": 250.0},
    }


def binds() -> Raw:
    return {
        "load": {"nodes": 5000, "rate": 100.0},
        "pods_per_second": 99.0,
        "cpu_ms_per_pod": 3.5,
        "cores": 0.35,
        "round_trips_ms": {"filter": spread(1.5), "bind": spread(4.0)},
        "longest_steps_ms": [[3.0, "follow"], [1.0, "take"]],
    }


def rate() -> Raw:
    alone = {
        "title": "no extender",
        "binds_per_second": 100.0,
        "to_empty": None,
        "to_python": None,
        "to_none": None,
    }
    ours = {"title": "ours", "binds_per_second": 92.0, "to_empty": 0.95, "to_python": 0.97, "to_none": 0.92}
    return {"cells": {"none": alone, "numalign-bind": ours}}


def document(**parts: Raw) -> Raw:
    machine = {"cpu": "Some CPU", "cores": 2, "python": "3.11.7", "numpy": "2.0"}
    return {"machine": machine, "parts": parts, "missing": {}}


def whole() -> Raw:
    return document(
        makes=of_makes(),
        columns=columns(),
        openb=openb(),
        extender=extender(),
        webhook=webhook(),
        churn=churn(),
        binds=binds(),
        rate=rate(),
    )


def line(text: str, start: str) -> list[str]:
    """The cells of the row that begins so."""
    [found] = [each for each in text.splitlines() if each.startswith(start)]
    return re.split(r"\s{2,}", found)


@pytest.mark.parametrize(
    ("start", "cells"),
    [
        (
            "cold verdicts, 36 makes, pods that need one zone",
            ["1 ms", "0.271 ms of 1 make", "3.69", "≤ 0.542 ms", "MISSED"],
        ),
        ("cold verdicts, 6 makes, pods that need one zone", ["0.375 ms", "0.271 ms of 1 make", "1.38"]),
        ("cold verdicts, 36 makes, pods without a policy, plain", ["1 ms", "0.5 ms in Go", "2"]),
        ("cold verdicts, 15,000 nodes, 36 makes, pods without a policy", ["1 ms"]),
        ("pairs that the rules were asked about, verdicts", ["0 %", "≤ 1 %", "met"]),
        ("pairs that the rules were asked about, scores", ["2 %", "≤ 1 %", "MISSED"]),
        ("cold verdicts, 2 zones", ["0.5 ms", "0.25 ms in Go", "2", "≤ 0.8 ms", "met"]),
        ("cold, with scores, 2 zones", ["3.5 ms", "1 ms in Go", "3.5", "≤ 3 ms", "MISSED"]),
        (
            "filter, 500 names, 36 makes, first of a template, p50",
            ["8 ms", "8 ms in the handler", "1", "≤ 8 ms", "met"],
        ),
        (
            "filter, 500 names, 36 makes, first of a template, p99",
            ["32 ms", "32 ms in the handler", "1", "≤ 15 ms", "MISSED"],
        ),
        ("filter, 500 names, first of a template, 36 makes, p50", ["8 ms", "2 ms of 1 make", "4"]),
        ("filter, 500 names, 1 make, again, p50, in the handler", ["0.5 ms", "≤ 0.7 ms", "met"]),
        ("filter, 5,000 names, 36 makes, again, p99  ", ["4 ms", "2 ms in the handler", "2"]),
        ("filter, 5,000 names, 36 makes, again, p99, in the handler", ["2 ms", "≤ 10 ms", "met"]),
        ("round trip at 100 reviews/s, p50", ["0.8 ms", "0.4 ms in the handler", "2"]),
        ("/mutate, first of a template, round trip p99", ["80 ms", "4 ms again", "20", "≤ 25 ms", "MISSED"]),
        ("lag of the loop at first reviews, max", ["9 ms"]),
        ("handler at 100 reviews/s, p50", ["0.4 ms"]),
        ("answered of 500 reviews/s", ["400 per s", "≥ 495 per s", "MISSED"]),
        ("handler at 500 reviews/s, p50", ["0.4 ms", "≤ 1 ms", "met"]),
        ("webhook, resident", ["260 MiB", "300 MiB at the peak", "0.867", "≤ 256 MiB", "MISSED"]),
        ("reviews of 500 a second, answered", ["499 per s", "≥ 495 per s", "met"]),
        ("resident, webhook", ["200 MiB", "250 MiB at the peak", "0.8"]),
        ("round trip, p50", ["1.5 ms", "1 ms if nothing changes", "1.5", "≤ 2 ms", "met"]),
        ("handler, p99", ["3 ms", "6 ms round trip", "0.5"]),
        ("from a change to the answer that shows it, p99", ["800 ms", "≤ 1,000 ms", "met"]),
        (
            "processors, webhook",
            ["0.75 cores", "0.25 cores if nothing changes", "3", "≤ 0.6 cores", "MISSED"],
        ),
        ("lag of the webhook's loop, max", ["2.7 ms", "≤ 2 ms", "MISSED"]),
        ("pods of 100 a second, bound", ["99 per s"]),
        ("/bind while pods come and go, round trip p99", ["16 ms"]),
        ("processors, scorer", ["0.35 cores"]),
        ("longest step of the scorer's loop: follow", ["3 ms", "≤ 2 ms", "MISSED"]),
        ("memory of a node of 2 zones", ["3.5 KiB", "3 KiB without the columns", "1.17", "≤ 6 KiB", "met"]),
        ("ours: to the empty extender", ["0.95", "≥ 0.9", "met"]),
        ("ours: to no extender", ["0.92"]),
        ("5,000 nodes, 8 zones, restricted, 4 needed", ["0.5 ms", "0.25 ms in Go", "2"]),
    ],
)
def test_targets_and_ratios_stand_beside_the_figures(start: str, cells: list[str]) -> None:
    found = line(report.text(whole()), start)
    assert found == [found[0], *cells]


def test_the_last_line_counts_targets() -> None:
    assert report.text(document(columns=columns())).splitlines()[-1] == "9 of 13 targets met"


def test_time_per_node_is_not_to_rise() -> None:
    found = columns()
    found["cells"][-1]["verdicts_ms"] = {"median": 7.6, "best": 7.6}
    grown = line(
        report.text(document(columns=found)), "a node of 15,000, verdicts, 8 zones, restricted, four"
    )
    assert grown[1:] == ["0.507 µs", "0.5 µs of 1,000", "1.01", "≤ 0.5 µs", "MISSED"]


def test_without_go_the_column_says_so() -> None:
    found = columns()
    for each in found["cells"]:
        each["floor"] = None
    assert line(report.text(document(columns=found)), "cold verdicts, 2 zones")[2] == "no go here"
    assert " in Go" not in charts.charts(document(columns=found))["nodes"]


def test_what_nobody_waited_for_misses_its_target() -> None:
    found = columns()
    for each in found["cells"]:
        each["scores_ms"] = None
    missed = line(report.text(document(columns=found)), "cold, with scores, 2 zones")
    assert (missed[1], missed[-1]) == ("too long", "MISSED")
    assert "| too long |" in report.page(document(columns=found))


def test_a_part_that_is_missing_is_named_with_the_reason() -> None:
    found = document(extender=extender()) | {"missing": {"rate": "there is no Go here"}}
    assert "rate was not measured: there is no Go here" in report.text(found)
    assert "Not measured: rate, there is no Go here." in report.page(found)


def test_the_page_that_is_kept_is_made_of_the_figures_that_are_kept() -> None:
    kept = orjson.loads((DOCS / "speed.json").read_bytes())
    assert (DOCS / "speed.md").read_text(encoding="utf-8") == report.page(kept)
    drawn = {charts.chart_file(name): text for name, text in charts.charts(kept).items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("speed-*.svg")} == drawn
