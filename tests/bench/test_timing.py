"""Durations of what is done again and again."""

import itertools

from bench.timing import Times, timed


def test_each_call_is_timed_by_itself() -> None:
    ticks = itertools.accumulate(itertools.count(1))
    found = timed(str.upper, ["a", "b"], clock=lambda: next(ticks))
    assert found == (["A", "B"], [2, 4])


def test_nothing_is_begun_once_the_budget_is_spent() -> None:
    ticks = itertools.count()
    results, _ = timed(str.upper, "abcde", budget=2, clock=lambda: next(ticks))
    assert results == ["A", "B"]


def test_the_first_call_is_made_whatever_it_costs() -> None:
    ticks = itertools.count(step=100)
    assert timed(str.upper, "abcde", budget=1, clock=lambda: next(ticks)) == (["A"], [100])


def test_durations_are_summed_up_in_milliseconds() -> None:
    assert Times.of([0.003, 0.001, 0.002]).millis() == {"median": 2, "best": 1}
