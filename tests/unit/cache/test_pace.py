"""An answer begins again after each part that took too long, and ends however fast the cluster changes."""

from collections.abc import Iterator
from itertools import islice

from numalign.cache.pace import Pace


def test_answer_ends_although_a_part_always_has_more_to_do() -> None:
    pace, done = Pace(), list[int]()

    def part() -> Iterator[None]:
        done.append(1)
        yield
        yield

    def answer() -> int:
        pace.do("part", part())
        return len(done)

    assert len([*islice(pace.in_steps(answer), 100)]) < 10
    assert len(done) == 3


def test_each_part_interrupts_by_itself() -> None:
    pace, stored = Pace(), set[int]()

    def part(number: int) -> Iterator[None]:
        yield
        stored.add(number)

    def answer() -> bool:
        for number in range(5):
            if number not in stored:
                pace.do(number, part(number))
        return True

    assert len([*pace.in_steps(answer)]) == 5
