"""What traces take, as it is put into a table."""

from tools.bench.tracing import MODES, Measured, measure, span_cost, text
from tools.clusters.otlp import receiving

FIGURES = {mode: Measured([900, 400.0 + at], [600, 500.0]) for at, mode in enumerate(MODES)}


def test_modes_are_held_against_none_by_their_best_round() -> None:
    told = [line.split() for line in text(FIGURES, 7).splitlines()]
    assert told[-1] == ["7", "spans", "received"]
    assert [line[-3:] for line in told if line[0] in {"off", "on,"}] == [
        ["400", "+0", "500"],
        ["401", "+1", "500"],
        ["402", "+2", "500"],
        ["403", "+3", "500"],
    ]


async def test_it_runs() -> None:
    figures, spans = await measure(reviews=2, rounds=1)
    assert figures.keys() == MODES.keys()
    # Those that warm up, and those that are measured.
    assert spans >= 3


def test_spans_that_are_sampled_are_sent_and_others_are_not() -> None:
    with receiving() as receiver:
        assert span_cost(0.0, receiver.endpoint) > 0
        assert receiver.spans == []
        assert span_cost(1.0, receiver.endpoint) > 0
        assert {span.name for span in receiver.spans} == {"POST /validate"}
