"""Requests fit apart if each has a zone beside the others."""

import pytest

from numalign.decision import packing
from numalign.decision.packing import MOST_REQUESTS, fit_apart
from tests.worlds.notation import table

APART = [
    # what it shows                    the zones             the requests           whether they fit
    ("one for each zone",                [{"a": 2}, {"a": 2}], [{"a": 2}, {"a": 2}],             True),
    ("two in one zone",                  [{"a": 4}],           [{"a": 2}, {"a": 2}],             True),
    ("enough in total, not in a zone",   [{"a": 3}, {"a": 3}], [{"a": 2}] * 3,                   False),
    ("large ones first",                 [{"a": 3}, {"a": 2}], [{"a": 2}, {"a": 3}],             True),
    ("two resources in different zones", [{"a": 2}, {"b": 2}], [{"a": 1, "b": 1}],               False),
    ("nothing",                          [],                   [],                               True),
    ("more requests than are tried",     [{"a": 999}],         [{"a": 1}] * (MOST_REQUESTS + 1), None),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "requests", "fit"), table(APART))
def test_requests_fit_apart(zones: list[dict[str, int]], requests: list[dict[str, int]], fit: object) -> None:
    assert fit_apart(zones, requests) is fit


def test_tries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_TRIED", 3)
    assert fit_apart([{"a": 3}, {"a": 3}], [{"a": 2}] * 3) is None
