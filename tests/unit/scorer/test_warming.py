"""Who was waiting when a scorer starts is answered at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from numalign.cache.ranking import Ranks
from numalign.scheduling.scheduler_state import PendingPod
from scorer.handlers import CallContext
from scorer.warming import MOST_QUESTIONS, SECONDS, Warming
from tests.worlds.scorer import EMPTY, FOUR, Scorer, on, raw

NODES = {"a": EMPTY, "b": EMPTY}
EIGHT = "cpu=8 mem=1Gi gpu=1"


@dataclass
class Started:
    """A scorer that has just read its cluster, and what is worked out before it is ready."""

    scorer: Scorer = field(default_factory=Scorer)
    lacks: str | None = None

    def __post_init__(self) -> None:
        journal, time = self.scorer.journal, self.scorer.time
        self.warming = Warming(self.scorer.context, lambda: self.lacks, journal.log, time, sleep=time.sleep)

    @property
    def answers(self) -> int:
        return len(self.scorer.state.cache.caches()["nodes"])


@pytest.fixture
async def started() -> Started:
    made = Started()
    await made.scorer.know(NODES)
    return made


async def test_bound_or_ended_pod_is_not_evaluated(started: Started) -> None:
    ended = {**raw(FOUR, name="ended"), "status": {"phase": "Failed"}}
    leaving = raw(FOUR, name="leaving", deletionTimestamp="2027-01-15T08:00:00Z")
    started.scorer.see(on("a", raw(FOUR)), ended, leaving)
    await started.warming.run()
    assert started.answers == 0


async def test_most_frequent_questions_are_evaluated_first(started: Started) -> None:
    others = [raw(f"cpu=1 mem={1 + number}Mi", name=f"other-{number}") for number in range(MOST_QUESTIONS)]
    started.scorer.see(*others, raw(FOUR, name="one"), raw(FOUR, name="two"))
    await started.warming.run()
    assert started.answers == MOST_QUESTIONS
    assert started.scorer.fits(raw(FOUR), "a", "b") == [True, True]
    assert started.answers == MOST_QUESTIONS


async def test_evaluation_starts_with_the_first_snapshot(started: Started) -> None:
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


async def test_an_error_does_not_delay_readiness(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(CallContext, "ranks")
    started.scorer.see(raw(FOUR))
    await started.warming.run()
    assert len(started.scorer.journal.of("warming.failed")) == 1
    assert started.warming.waiting_for() is None


async def test_evaluation_stops_at_its_time_limit(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    started.scorer.see(raw(FOUR, name="one"), raw(EIGHT, name="two"))
    ranks = CallContext.ranks

    async def slow(context: CallContext, names: Sequence[str], pod: PendingPod) -> Ranks:
        started.scorer.time.seconds += SECONDS
        return await ranks(context, names, pod)

    monkeypatch.setattr(CallContext, "ranks", slow)
    await started.warming.run()

    assert (started.answers, started.warming.waiting_for()) == (1, None)
