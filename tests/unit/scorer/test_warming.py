"""Who was waiting when a scorer starts is answered at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from numalign.cache.ranking import Ranks
from numalign.scheduling.scheduler_state import PendingPod
from scorer.context import CallContext
from scorer.warming import MOST_QUESTIONS, SECONDS, Warming
from tests.unit.scorer.conftest import EMPTY, FOUR, Scorer, on, raw

NODES = {"a": EMPTY, "b": EMPTY}
EIGHT = "cpu=8 mem=1Gi gpu=1"


@dataclass
class Started:
    """A scorer that has just read its cluster, and what is worked out before it is ready."""

    scorer: Scorer = field(default_factory=Scorer)
    lacks: str | None = None

    def __post_init__(self) -> None:
        scorer = self.scorer
        self.warming = Warming(
            scorer.context, lambda: self.lacks, scorer.told.log, scorer.time, sleep=scorer.time.sleep
        )

    @property
    def answers(self) -> int:
        """How many questions are answered."""
        return len(self.scorer.state.cache.caches()["nodes"])


@pytest.fixture
async def started() -> Started:
    made = Started()
    await made.scorer.know(NODES)
    return made


async def test_what_waiting_pods_ask_is_answered_once_for_those_that_ask_alike(started: Started) -> None:
    started.scorer.see(raw(FOUR, name="one"), raw(FOUR, name="two"), raw(EIGHT, name="three"))

    await started.warming.run()

    assert started.answers == 2
    assert started.warming.waiting_for() is None


GONE = {
    "bound": on("a", raw(FOUR)),
    "ended": {**raw(FOUR), "status": {"phase": "Failed"}},
    "about to go": raw(FOUR, deletionTimestamp="2027-01-15T08:00:00Z"),
}


@pytest.mark.parametrize("made", GONE.values(), ids=GONE)
async def test_nothing_is_worked_out_for_a_pod_that_nobody_asks_about(
    started: Started, made: dict[str, object]
) -> None:
    started.scorer.see(made)

    await started.warming.run()

    assert started.answers == 0


async def test_what_most_ask_is_answered_where_many_ask(started: Started) -> None:
    others = [raw(f"cpu=1 mem={1 + number}Mi", name=f"other-{number}") for number in range(MOST_QUESTIONS)]
    started.scorer.see(*others, raw(FOUR, name="one"), raw(FOUR, name="two"))

    await started.warming.run()

    assert started.answers == MOST_QUESTIONS
    assert started.scorer.fits(raw(FOUR), "a", "b") == [True, True]
    assert started.answers == MOST_QUESTIONS


async def test_it_begins_when_there_is_a_cluster_and_readiness_waits_for_it(started: Started) -> None:
    started.lacks = "the first snapshot"
    started.scorer.see(raw(FOUR))
    seen: list[tuple[int, str | None]] = []

    def come() -> None:
        seen.append((started.answers, started.warming.waiting_for()))
        started.lacks = None
        seen.append((started.answers, started.warming.waiting_for()))

    started.scorer.time.after(5, come)
    await started.warming.run()

    assert seen == [(0, None), (0, "the evaluation of pending pods")]
    assert (started.answers, started.warming.waiting_for()) == (1, None)


async def test_nothing_more_is_begun_once_it_took_too_long(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.scorer.see(raw(FOUR, name="one"), raw(EIGHT, name="two"))
    ranks = CallContext.ranks

    async def slow(context: CallContext, names: Sequence[str], pod: PendingPod) -> Ranks:
        started.scorer.time.seconds += SECONDS
        return await ranks(context, names, pod)

    monkeypatch.setattr(CallContext, "ranks", slow)
    await started.warming.run()

    assert (started.answers, started.warming.waiting_for()) == (1, None)


async def test_a_fault_is_logged_and_keeps_it_from_nothing(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.scorer.see(raw(FOUR))

    async def broken(*_asked: object) -> None:
        raise RuntimeError("nobody knows why")

    monkeypatch.setattr(CallContext, "ranks", broken)
    await started.warming.run()

    [line] = started.scorer.told.of("warming.failed")
    assert "nobody knows why" in str(line)
    assert started.warming.waiting_for() is None
