"""Events about pods are written in the background, once each, and never stand in anybody's way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.client import ObjectWriter, Query
from numalign.kube.errors import Unreachable
from numalign.kube.events import (
    LOG_AGAIN_SECONDS,
    LONGEST_MESSAGE,
    MOST_WAITING,
    PACE_SECONDS,
    PAUSES,
    Event,
    EventOutcome,
    Recorder,
    Type,
    written,
)
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
EVENTS = "/api/v1/namespaces/team/events"
BOUNCED = Event(
    namespace="team",
    pod="web",
    uid="1",
    type=Type.WARNING,
    reason="PlacementRefused",
    message="node a refused what was reserved",
)


@dataclass
class Recording:
    """A recorder and what it does; its time moves by what it sleeps, and `meanwhile` something happens."""

    api: ObjectWriter
    meanwhile: Callable[[], object] = lambda: None
    seconds: float = 0
    slept: list[float] = field(default_factory=list)
    told: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            self.api,
            component="numalign-scorer",
            log=self.told.log,
            registry=self.registry,
            now=lambda: NOW,
            clock=lambda: self.seconds,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        """Takes no time, and lets others run."""
        self.slept.append(seconds)
        self.seconds += seconds
        self.meanwhile()
        await asyncio.sleep(0)

    def count(self, outcome: EventOutcome) -> float | None:
        """As the metric says."""
        return self.registry.get_sample_value("numalign_pod_events_total", {"outcome": outcome})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While its task runs."""
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[FakeApi, Recording]]:
    async with FakeApi() as server, server.client() as api:
        yield server, Recording(api)


async def test_an_event_says_what_happened_to_which_pod() -> None:
    async with recording() as (server, made), made.running():
        made.recorder.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.WRITTEN) == 1)

        [found] = server.all(EVENTS)
        assert found["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "team",
            "name": "web",
            "uid": "1",
        }
        assert {key: found[key] for key in ("type", "reason", "message", "count", "reportingComponent")} == {
            "type": "Warning",
            "reason": "PlacementRefused",
            "message": "node a refused what was reserved",
            "count": 1,
            "reportingComponent": "numalign-scorer",
        }
        assert found["firstTimestamp"] == found["lastTimestamp"] == "2026-01-02T03:04:05Z"
        assert found["metadata"]["name"].startswith("web.")


async def test_the_same_event_stands_there_once_and_others_beside_it() -> None:
    others = [replace(BOUNCED, uid="2"), replace(BOUNCED, message="x"), replace(BOUNCED, type=Type.NORMAL)]
    async with recording() as (server, made), made.running():
        for event in (BOUNCED, *others, BOUNCED):
            made.recorder.publish(event)
        await until(lambda: made.count(EventOutcome.REPEATED) == 1)

        assert (len(server.all(EVENTS)), made.count(EventOutcome.WRITTEN)) == (4, 4)
        assert made.told.lines() == []


async def test_what_replicas_tell_in_their_own_words_stands_there_once_if_they_agree_on_a_key() -> None:
    said = [replace(BOUNCED, key="k", message=message) for message in ("one's", "another's")]
    async with recording() as (server, made), made.running():
        for event in (*said, replace(said[0], key="another")):
            made.recorder.publish(event)
        await until(lambda: made.count(EventOutcome.WRITTEN) == 2)

        assert made.count(EventOutcome.REPEATED) == 1
        assert [found["message"] for found in server.all(EVENTS)] == ["one's", "one's"]


async def test_an_event_may_be_about_what_owns_pods() -> None:
    async with recording() as (server, made), made.running():
        made.recorder.publish(replace(BOUNCED, kind="ReplicaSet", api_version="apps/v1"))
        await until(lambda: made.count(EventOutcome.WRITTEN) == 1)

        [found] = server.all(EVENTS)
        about = found["involvedObject"]
        assert (about["apiVersion"], about["kind"], about["name"]) == ("apps/v1", "ReplicaSet", "web")


async def test_an_api_server_has_a_pause_between_events() -> None:
    async with recording() as (_, made), made.running():
        for number in range(3):
            made.recorder.publish(replace(BOUNCED, uid=str(number)))
        await until(lambda: made.count(EventOutcome.WRITTEN) == 3)
        await until(lambda: made.slept == [PACE_SECONDS] * 3)


async def test_who_tells_too_much_never_waits_and_the_loss_is_counted() -> None:
    async with recording() as (_, made):
        for number in range(MOST_WAITING + 5):
            made.recorder.publish(replace(BOUNCED, uid=str(number)))

    assert made.count(EventOutcome.DROPPED) == 5
    [line] = made.told.lines()
    assert (line["event"], line["outcome"]) == ("event.lost", "dropped")


@dataclass
class Noting:
    """An API server that takes everything, and where each was to go."""

    paths: list[str] = field(default_factory=list)

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """As said at `ObjectWriter`."""
        del query, what
        self.paths.append(path)
        return body


async def test_a_namespace_with_many_events_neither_displaces_nor_delays_those_of_another() -> None:
    noting = Noting()
    made = Recording(noting)
    for number in range(MOST_WAITING + 5):
        made.recorder.publish(replace(BOUNCED, namespace="evil", uid=str(number)))
    made.recorder.publish(BOUNCED)
    async with made.running():
        await until(lambda: len(noting.paths) > 1)

    assert noting.paths[1] == EVENTS


async def test_an_api_server_that_is_away_for_a_while_gets_it_later() -> None:
    async with recording() as (server, made), made.running():
        server.failures[EVENTS] = HTTPStatus.SERVICE_UNAVAILABLE
        made.meanwhile = server.failures.clear
        made.recorder.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.WRITTEN) == 1)

        assert (made.slept[0], made.told.lines()) == (PAUSES[0], [])


class Absent:
    """An API server that nobody reaches."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tries = 0

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """As said at `ObjectWriter`."""
        assert (path, query, what) == (EVENTS, (), "the event PlacementRefused of pod team/web")
        assert body == written(BOUNCED, by="numalign-scorer", at=NOW)
        self.tries += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "tries", "reason"),
    [
        (Unreachable("nobody is there"), len(PAUSES) + 1, "nobody is there"),
        (TimeoutError(), len(PAUSES) + 1, "no answer within 10 s"),
        (ZeroDivisionError("a fault"), 1, "ZeroDivisionError('a fault')"),
    ],
    ids=["away", "silent", "a fault of ours"],
)
async def test_what_nobody_takes_is_given_up(error: Exception, tries: int, reason: str) -> None:
    absent = Absent(error)
    made = Recording(absent)
    async with made.running():
        made.recorder.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.FAILED) == 1)
        await until(lambda: made.slept[-1:] == [PACE_SECONDS])

    assert absent.tries == tries
    assert made.slept == [*PAUSES[: tries - 1], PACE_SECONDS]
    [line] = made.told.lines()
    assert (line["event"], line["outcome"], line["reason"]) == ("event.lost", "failed", reason)


async def test_a_refusal_is_final_and_said_once_a_minute() -> None:
    refused = 50
    async with recording() as (server, made), made.running():
        server.failures[EVENTS] = HTTPStatus.FORBIDDEN
        for number in range(refused - 1):
            made.recorder.publish(replace(BOUNCED, uid=str(number)))
        await until(lambda: made.count(EventOutcome.FAILED) == refused - 1)
        before = made.told.lines()
        made.seconds += LOG_AGAIN_SECONDS
        made.recorder.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.FAILED) == refused)

        assert (len(before), len(made.told.lines())) == (1, 2)
        assert "not allowed to create the event PlacementRefused of pod team/web" in before[0]["reason"]


texts = st.text(max_size=2000)


@given(texts, texts, st.sampled_from(["web", "w" * 253, "a" * 235 + ".b" * 9, "x-" * 126 + "x"]))
def test_whatever_is_said_is_short_enough_and_has_a_name_of_its_own(
    message: str, other: str, pod: str
) -> None:
    event = replace(BOUNCED, pod=pod, message=message)
    made, again = (written(event, by="numalign-scorer", at=NOW) for _ in range(2))
    else_said = written(replace(event, message=other), by="numalign-scorer", at=NOW)

    name = made["metadata"]["name"]
    assert made == again
    assert (else_said["metadata"]["name"] == name) == (other == message)
    assert len(name) <= 253
    assert name[:-17] == pod[: len(name) - 17]
    assert name[-18].isalnum()
    assert len(made["message"]) <= LONGEST_MESSAGE
    assert made["message"] == message or made["message"].endswith("...")
