"""How much of the map is worked out at once."""

import asyncio
import contextlib

import pytest

from numalign.map import turnstile
from numalign.map.turnstile import Busy, Turnstile

ANN, BOB = b"ann", b"bob"


def test_one_viewer_has_only_so_many_calls_at_once_and_others_have_theirs() -> None:
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


async def test_one_viewer_has_only_so_many_questions_and_all_together_too() -> None:
    counted, gate = Turnstile(), asyncio.Event()

    async def question() -> int:
        await gate.wait()
        return 1

    def ask(key: bytes) -> asyncio.Task[int]:
        return asyncio.create_task(counted.answer(key, question))

    # Each of these has two, and one too many.
    viewers = [bytes([number]) for number in range(turnstile.MOST_QUESTIONS // 2)]
    tasks = [ask(key) for key in viewers for _ in range(turnstile.MOST_QUESTIONS_EACH + 1)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="try again"):
        await counted.answer(BOB, question)
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert results.count(1) == turnstile.MOST_QUESTIONS
    assert sum(isinstance(result, Busy) for result in results) == len(viewers)
    assert await counted.answer(BOB, question) == 1


async def test_a_question_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile, "QUESTION_SECONDS", 0.01)
    counted = Turnstile()
    with pytest.raises(Busy, match=r"0\.01 s: ask for fewer"):
        await counted.answer(ANN, lambda: asyncio.sleep(10))
    assert await counted.answer(ANN, lambda: asyncio.sleep(0, "done")) == "done"
