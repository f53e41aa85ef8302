"""What pages are told of changes: names while they are few, and never more than a bounded amount."""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from numalign.map import events
from numalign.map.events import Stream, Streams, TooManyStreams
from tests.worlds.log import RecordedLog

ANN, BOB = b"ann", b"bob"


@pytest.fixture
def streams() -> Streams:
    return Streams(CollectorRegistry())


def told(stream: Stream) -> tuple[str, list[str]]:
    """The kind of the next event, and the names in it."""
    lines = stream.take(7).decode().split("\n")
    assert (lines[0], lines[3:]) == ("id: 7", ["", ""])
    return lines[1].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))


def test_names_are_gathered_until_they_are_taken(streams: Streams) -> None:
    with streams.opened(ANN) as stream:
        for names in (["b"], ["a", "b"]):
            streams.notify(names, 1)

        assert told(stream) == ("nodes", ["a", "b"])
        assert stream.take(8) == b""


def test_behind_a_reader_who_sleeps_nothing_grows(streams: Streams) -> None:
    with streams.opened(ANN) as stream:
        for number in range(10_000):
            streams.notify([f"n{number}"], number)
        assert len(stream.names) <= events.MOST_NAMES

        assert told(stream) == ("all", [])
        streams.notify(["a"], 1)
        assert told(stream) == ("nodes", ["a"])


def test_where_nobody_knows_what_changed_everything_may_have(streams: Streams) -> None:
    with streams.opened(ANN) as stream:
        streams.notify(["a"], 1)
        streams.notify(None, 2)
        streams.notify(["b"], 3)

        assert told(stream) == ("all", [])


def test_a_name_begins_no_event_of_its_own(streams: Streams) -> None:
    hostile = "a\n\nevent: login\ndata: x"
    with streams.opened(ANN) as stream:
        streams.notify([hostile], 1)

        assert told(stream) == ("nodes", [hostile])


def test_one_viewer_has_only_so_many_streams_and_all_together_too(streams: Streams) -> None:
    with pytest.raises(TooManyStreams), _open(streams, [ANN] * (events.MOST_STREAMS_EACH + 1)):
        pass
    viewers = [bytes([number]) for number in range(events.MOST_STREAMS // events.MOST_STREAMS_EACH)]
    every = [key for key in viewers for _ in range(events.MOST_STREAMS_EACH)]
    with pytest.raises(TooManyStreams), _open(streams, [*every, BOB]):
        pass
    with _open(streams, every):
        pass


@contextlib.contextmanager
def _open(streams: Streams, keys: Iterable[bytes]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for key in keys:
            stack.enter_context(streams.opened(key))
        yield


def test_the_streams_of_one_viewer_end_alone(streams: Streams) -> None:
    with streams.opened(ANN) as of_ann, streams.opened(BOB) as of_bob:
        streams.end(ANN)

        assert (of_ann.ended, of_bob.ended) == (True, False)


async def test_whoever_follows_tells_what_changed_and_ends_all_when_it_ends(streams: Streams) -> None:
    revisions, asked = [5], list[int]()

    def changes(since: int) -> frozenset[str]:
        asked.append(since)
        return frozenset({"a"})

    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    async def look() -> int:
        return revisions[-1]

    task = asyncio.create_task(streams.follow(look, changes, log=RecordedLog().log, sleep=sleep))
    with streams.opened(ANN) as stream:
        await asyncio.sleep(0.01)
        assert stream.take(5) == b""
        revisions.append(9)
        await stream.wait(1)
        assert (told(stream), asked, streams.revision) == (("nodes", ["a"]), [5], 9)

        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert stream.ended
    with streams.opened(ANN) as late:
        assert late.ended


async def test_what_breaks_while_it_looks_is_said_and_ends_nothing(streams: Streams) -> None:
    told, looks = RecordedLog(), list[int]()

    async def look() -> int:
        looks.append(len(looks))
        if 1 < len(looks) < 5:
            raise RuntimeError("the secret of the house")
        return len(looks)

    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    task = asyncio.create_task(
        streams.follow(look, lambda _since: frozenset({"a"}), log=told.log, sleep=sleep)
    )
    with streams.opened(ANN) as stream:
        await stream.wait(1)
        assert stream.names == {"a"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(told.of("map.failed")) == 1
