"""What loops that write share: a deadline, growing pauses, and a log that repeats no missing permission."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.errors import Unreachable
from numalign.kube.writes import FailureLog, answer, backoff, counter
from tests.worlds.log import RecordedLog
from tests.worlds.write_faults import FORBIDDEN, UNREACHABLE


async def test_late_answer_is_unreachable() -> None:
    assert await answer(asyncio.sleep(0, "it is there"), within=5) == "it is there"

    with pytest.raises(Unreachable, match=r"^the API server did not answer within 0 s$"):
        await answer(asyncio.Event().wait(), within=0)


def test_pauses_double_up_to_the_longest() -> None:
    assert [backoff(times, 0.5, 4.0) for times in range(5)] == [0.5, 1.0, 2.0, 4.0, 4.0]
    assert backoff(10**6, 1.0, 1e9) == 2.0**16


def test_every_value_is_counted_from_the_beginning() -> None:
    registry = CollectorRegistry()
    counter("writes", "Writes, by result.", ["result"], ("written", "failed"), registry).labels(
        "failed"
    ).inc()

    counts = [registry.get_sample_value("writes_total", {"result": each}) for each in ("written", "failed")]
    assert counts == [0.0, 1.0]


def test_missing_permission_is_logged_once_until_success() -> None:
    log = RecordedLog()
    failures = FailureLog(log.log)
    for succeeds in (False, False, True, False):
        assert failures.forbidden("class.forbidden", FORBIDDEN, node="a") == "forbidden"
        if succeeds:
            failures.succeeded()

    lines = [(line["level"], line["node"], line["error"]) for line in log.of("class.forbidden")]
    assert lines == [("error", "a", str(FORBIDDEN))] * 2


@pytest.mark.parametrize(("lines", "count"), [(None, 3), (2, 2)])
def test_other_failures_are_logged_within_a_limit(lines: int | None, count: int) -> None:
    log = RecordedLog()
    failures = FailureLog(log.log, lines=lines)

    assert {failures.failed("class.failed", UNREACHABLE) for _ in range(3)} == {"failed"}
    assert [line["error"] for line in log.of("class.failed")] == [str(UNREACHABLE)] * count
