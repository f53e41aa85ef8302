"""Events about changes, calls and questions: a bounded amount of each."""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from numalign.map import events, turnstile
from numalign.map.access import Unavailable
from numalign.map.events import Stream, Streams
from numalign.map.turnstile import Turnstile
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table

ANN, BOB = b"ann", b"bob"


@pytest.fixture
def streams() -> Streams:
    return Streams(CollectorRegistry())


def taken(stream: Stream) -> tuple[str, list[str]]:
    """Return the kind of the next event, and the names in it."""
    lines = stream.take(7).decode().split("\n")
    assert (lines[0], lines[3:]) == ("id: 7", ["", ""])
    return lines[1].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))


FORGED = "a\n\nevent: login\ndata: x"
CHANGES: list[tuple[str, list[list[str] | None], tuple[str, list[str]]]] = [
    ("several changes", [["b"], ["a", "b"]], ("nodes", ["a", "b"])),
    ("an unknown change", [["a"], None, ["b"]], ("all", [])),
    ("a name with line breaks", [[FORGED]], ("nodes", [FORGED])),
    ("too many changes", [[f"n{number}"] for number in range(10_000)], ("all", [])),
]


@pytest.mark.parametrize(("changes", "event"), table(CHANGES))
def test_changes_are_one_event(
    streams: Streams, changes: list[list[str] | None], event: tuple[str, list[str]]
) -> None:
    with streams.opened(ANN) as stream:
        for names in changes:
            streams.notify(names, 1)
        assert len(stream.names) <= events.MOST_NAMES

        assert taken(stream) == event
        assert stream.take(8) == b""
        streams.notify(["a"], 1)
        assert taken(stream) == ("nodes", ["a"])


@contextlib.contextmanager
def opened(streams: Streams, keys: Iterable[bytes]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for key in keys:
            stack.enter_context(streams.opened(key))
        yield


def test_streams_are_bounded_for_each_viewer_and_in_total(streams: Streams) -> None:
    with (
        pytest.raises(Unavailable, match="close some"),
        opened(streams, [ANN] * (events.MOST_STREAMS_EACH + 1)),
    ):
        pass
    viewers = [bytes([number]) for number in range(events.MOST_STREAMS // events.MOST_STREAMS_EACH)]
    every = [key for key in viewers for _ in range(events.MOST_STREAMS_EACH)]
    with pytest.raises(Unavailable, match="close some"), opened(streams, [*every, BOB]):
        pass
    with opened(streams, every):
        pass


def test_streams_of_one_viewer_end_alone(streams: Streams) -> None:
    with streams.opened(ANN) as of_ann, streams.opened(BOB) as of_bob:
        streams.end(ANN)

        assert (of_ann.ended, of_bob.ended) == (True, False)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


async def test_changes_are_followed_until_the_end(streams: Streams) -> None:
    revisions, since = [5], list[int]()

    def changes(revision: int) -> frozenset[str]:
        since.append(revision)
        return frozenset({"a"})

    async def look() -> int:
        return revisions[-1]

    task = asyncio.create_task(streams.follow(look, changes, log=RecordedLog().log, sleep=no_sleep))
    with streams.opened(ANN) as stream:
        await asyncio.sleep(0.01)
        assert stream.take(5) == b""
        revisions.append(9)
        await stream.wait(1)
        assert (taken(stream), since, streams.revision) == (("nodes", ["a"]), [5], 9)

        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert stream.ended
    with streams.opened(ANN) as late:
        assert late.ended


async def test_a_failure_is_logged_once_and_ends_nothing(streams: Streams) -> None:
    log, looks = RecordedLog(), list[int]()

    async def look() -> int:
        looks.append(len(looks))
        if 1 < len(looks) < 5:
            raise RuntimeError("out of order")
        return len(looks)

    task = asyncio.create_task(
        streams.follow(look, lambda _since: frozenset({"a"}), log=log.log, sleep=no_sleep)
    )
    with streams.opened(ANN) as stream:
        await stream.wait(1)
        assert stream.names == {"a"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(log.of("map.failed")) == 1


def test_calls_of_each_viewer_are_bounded() -> None:
    counted = Turnstile()
    with contextlib.ExitStack() as stack:
        for _ in range(turnstile.MOST_CALLS_EACH):
            stack.enter_context(counted.call(ANN))
        with pytest.raises(Unavailable, match="wait for some"), counted.call(ANN):
            pass
        with counted.call(BOB):
            pass

    with counted.call(ANN):
        pass


async def test_questions_are_bounded_for_each_and_in_total() -> None:
    counted, gate = Turnstile(), asyncio.Event()

    async def question() -> int:
        await gate.wait()
        return 1

    # Each viewer has two, and one too many.
    viewers = [bytes([number]) for number in range(turnstile.MOST_QUESTIONS // 2)]
    keys = [key for key in viewers for _ in range(turnstile.MOST_QUESTIONS_EACH + 1)]
    tasks = [asyncio.create_task(counted.answer(key, question)) for key in keys]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="try again"):
        await counted.answer(BOB, question)
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert results.count(1) == turnstile.MOST_QUESTIONS
    assert sum(isinstance(result, Unavailable) for result in results) == len(viewers)
    assert await counted.answer(BOB, question) == 1


async def test_a_question_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile, "QUESTION_SECONDS", 0.01)
    counted = Turnstile()

    with pytest.raises(Unavailable, match=r"0\.01 s: ask for fewer"):
        await counted.answer(ANN, lambda: asyncio.sleep(10))
    assert await counted.answer(ANN, lambda: asyncio.sleep(0, "done")) == "done"
