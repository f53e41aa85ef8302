"""How many calls and questions are worked on at once."""

import asyncio
import contextlib

import pytest

from numalign.map import turnstile
from numalign.map.turnstile import Busy, Turnstile

ANN, BOB = b"ann", b"bob"


def test_calls_of_each_viewer_are_bounded() -> None:
    counted = Turnstile()
    with contextlib.ExitStack() as stack:
        for _ in range(turnstile.MOST_CALLS_EACH):
            stack.enter_context(counted.call(ANN))
        with pytest.raises(Busy, match="wait for some"), counted.call(ANN):
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
    with pytest.raises(Busy, match="try again"):
        await counted.answer(BOB, question)
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert results.count(1) == turnstile.MOST_QUESTIONS
    assert sum(isinstance(result, Busy) for result in results) == len(viewers)
    assert await counted.answer(BOB, question) == 1


async def test_a_question_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile, "QUESTION_SECONDS", 0.01)
    counted = Turnstile()

    with pytest.raises(Busy, match=r"0\.01 s: ask for fewer"):
        await counted.answer(ANN, lambda: asyncio.sleep(10))
    assert await counted.answer(ANN, lambda: asyncio.sleep(0, "done")) == "done"
