"""Long work lets others have a turn, and gives its answer in the end."""

import asyncio
from collections.abc import Generator, Iterator

import pytest

from numalign.runtime import cooperative
from numalign.runtime.cooperative import patiently, result_of


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SECONDS", -1.0)


def steps(name: str, told: list[str]) -> Iterator[None]:
    for number in range(3):
        told.append(f"{name}{number}")
        yield


async def test_others_have_a_turn_between_the_steps() -> None:
    told: list[str] = []
    await asyncio.gather(patiently(steps("a", told)), patiently(steps("b", told)))
    assert told == ["a0", "b0", "a1", "b1", "a2", "b2"]


async def test_the_answer_comes_in_the_end() -> None:
    def counted() -> Generator[None, None, int]:
        yield
        return 7

    assert await result_of(counted()) == 7
