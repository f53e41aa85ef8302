"""Work in steps, and all of it at once."""

from numalign.model.steps import Steps, finished


def counting(up_to: int, seen: list[int]) -> Steps[str]:
    for number in range(up_to):
        seen.append(number)
        yield
    return f"counted to {up_to}"


def test_nothing_is_done_before_it_is_asked_for() -> None:
    seen: list[int] = []
    work = counting(3, seen)
    assert seen == []
    next(work)
    assert seen == [0]


def test_what_is_finished_gives_its_answer() -> None:
    seen: list[int] = []

    assert finished(counting(3, seen)) == "counted to 3"
    assert seen == [0, 1, 2]
    assert finished(counting(0, seen)) == "counted to 0"
