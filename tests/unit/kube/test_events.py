"""Events about pods are written in the background, once each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube import events
from numalign.kube.client import ObjectWriter, Query
from numalign.kube.errors import Unreachable
from numalign.kube.events import Event, EventOutcome, Recorder, Type, written
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.tasks import in_background
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
EVENTS = "/api/v1/namespaces/team/events"
BOUNCED = Event("team", "web", "1", Type.WARNING, "PlacementRefused", "node a refused what was reserved")


class Recording:
    """A recorder and what it does; its time moves by what it sleeps."""

    def __init__(self, api: ObjectWriter) -> None:
        self.seconds, self.slept = 0.0, list[float]()
        self.log, self.registry = RecordedLog(), CollectorRegistry()
        self.recorder = Recorder(api, component="numalign-scorer", log=self.log.log, registry=self.registry,
            now=lambda: NOW, clock=lambda: self.seconds, sleep=self.sleep)  # fmt: skip

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

    def publish(self, *events: Event) -> None:
        for event in events:
            self.recorder.publish(event)

    def count(self, outcome: EventOutcome) -> float | None:
        return self.registry.get_sample_value("numalign_pod_events_total", {"outcome": outcome})

    def running(self) -> AbstractAsyncContextManager[None]:
        return in_background(self.recorder.run())


def bounced(count: int, *, namespace: str = "team") -> list[Event]:
    return [replace(BOUNCED, namespace=namespace, uid=str(number)) for number in range(count)]


@asynccontextmanager
async def recording() -> AsyncIterator[tuple[FakeApi, Recording]]:
    async with FakeApi() as server, server.client() as api:
        yield server, Recording(api)


async def test_the_fields_of_an_event() -> None:
    async with recording() as (server, made), made.running():
        made.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.WRITTEN) == 1)
        [event] = server.all(EVENTS)
        assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "team",
            "name": "web", "uid": "1"}  # fmt: skip
        counted = event["type"], event["count"], event["reportingComponent"]
        assert counted == ("Warning", 1, "numalign-scorer")
        assert (event["reason"], event["message"]) == (BOUNCED.reason, BOUNCED.message)
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-02T03:04:05Z"
        assert event["metadata"]["name"].startswith("web.")


async def test_events_with_an_equal_key_are_written_once() -> None:
    replicas = [replace(BOUNCED, key="k", message=message) for message in ("one's", "another's")]
    async with recording() as (server, made), made.running():
        made.publish(*replicas, replace(replicas[0], key="another"))
        await until(lambda: made.count(EventOutcome.WRITTEN) == 2)
        assert made.count(EventOutcome.REPEATED) == 1
        assert [event["message"] for event in server.all(EVENTS)] == ["one's", "one's"]


async def test_there_is_a_pause_between_events() -> None:
    async with recording() as (_, made), made.running():
        made.publish(*bounced(3))
        await until(lambda: made.count(EventOutcome.WRITTEN) == 3)
        await until(lambda: made.slept == [events.PACE_SECONDS] * 3)


async def test_too_many_events_are_dropped_and_counted() -> None:
    async with recording() as (_, made):
        made.publish(*bounced(events.MOST_WAITING + 5))
    assert made.count(EventOutcome.DROPPED) == 5
    [line] = made.log.lines()
    assert (line["event"], line["outcome"]) == ("event.lost", "dropped")


async def test_namespaces_do_not_delay_each_other() -> None:
    api = Mock(create=AsyncMock())
    made = Recording(api)
    made.publish(*bounced(events.MOST_WAITING + 5, namespace="evil"), BOUNCED)
    async with made.running():
        await until(lambda: api.create.call_count > 1)
    assert api.create.call_args_list[1].args[0] == EVENTS


class Absent:
    """An API server that fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tries = 0

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        assert (path, query, what) == (EVENTS, (), "the event PlacementRefused of pod team/web")
        assert body == written(BOUNCED, by="numalign-scorer", at=NOW)
        self.tries += 1
        raise self.error


@pytest.mark.parametrize(("error", "tries", "reason"), table([
    ("away", Unreachable("no connection"), len(events.PAUSES) + 1, "no connection"),
    ("silent", TimeoutError(), len(events.PAUSES) + 1, "no answer within 10 s"),
    ("a fault of ours", ZeroDivisionError("a fault"), 1, "ZeroDivisionError('a fault')"),
]))  # fmt: skip
async def test_failing_events_are_given_up(error: Exception, tries: int, reason: str) -> None:
    absent = Absent(error)
    made = Recording(absent)
    async with made.running():
        made.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.FAILED) == 1)
        await until(lambda: made.slept[-1:] == [events.PACE_SECONDS])
    assert absent.tries == tries
    assert made.slept == [*events.PAUSES[: tries - 1], events.PACE_SECONDS]
    [line] = made.log.lines()
    assert (line["event"], line["outcome"], line["reason"]) == ("event.lost", "failed", reason)


async def test_a_refusal_is_final_and_logged_once_a_minute() -> None:
    refused = 50
    async with recording() as (server, made), made.running():
        server.failures[EVENTS] = HTTPStatus.FORBIDDEN
        made.publish(*bounced(refused - 1))
        await until(lambda: made.count(EventOutcome.FAILED) == refused - 1)
        before = made.log.lines()
        made.seconds += events.LOG_AGAIN_SECONDS
        made.publish(BOUNCED)
        await until(lambda: made.count(EventOutcome.FAILED) == refused)
        assert (len(before), len(made.log.lines())) == (1, 2)
        assert "not allowed to create the event PlacementRefused of pod team/web" in before[0]["reason"]


texts = st.text(max_size=2000)


@given(texts, texts, st.sampled_from(["web", "w" * 253, "a" * 235 + ".b" * 9, "x-" * 126 + "x"]))
def test_names_and_messages_of_events_are_limited(message: str, other: str, pod: str) -> None:
    event = replace(BOUNCED, pod=pod, message=message)
    made, again = (written(event, by="numalign-scorer", at=NOW) for _ in range(2))
    different = written(replace(event, message=other), by="numalign-scorer", at=NOW)
    name = made["metadata"]["name"]
    assert made == again
    assert (different["metadata"]["name"] == name) == (other == message)
    assert len(name) <= 253
    assert name[:-17] == pod[: len(name) - 17]
    assert name[-18].isalnum()
    assert len(made["message"]) <= events.LONGEST_MESSAGE
    assert made["message"] == message or made["message"].endswith("...")
