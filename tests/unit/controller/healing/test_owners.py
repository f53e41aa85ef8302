"""How often an owner is tried, and when it is left alone."""

from controller.healing.owners import (
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    MOST_FAILED_MOVES,
    MOST_REMEMBERED,
    STOPPED_SECONDS,
    Owners,
)

A, B = ("team", "a"), ("team", "b")


def test_a_new_owner_waits_for_nothing() -> None:
    owners = Owners()

    assert owners.backoff_until(A) < 0
    assert not owners.is_stopped(A, 0)


def test_each_try_in_vain_makes_it_wait_longer() -> None:
    owners = Owners()
    assert not owners.move_failed(A, 0)
    assert owners.backoff_until(A) == FIRST_BACKOFF

    assert not owners.move_failed(A, 100)
    assert owners.backoff_until(A) == 100 + 2 * FIRST_BACKOFF
    assert owners.backoff_until(B) < 0


def test_after_three_it_is_left_alone_for_a_day() -> None:
    owners = Owners()
    stopped = [owners.move_failed(A, 0) for _ in range(MOST_FAILED_MOVES)]

    assert stopped == [False, False, True]
    assert owners.is_stopped(A, STOPPED_SECONDS - 1)
    assert not owners.is_stopped(A, STOPPED_SECONDS)


def test_after_that_day_it_begins_anew() -> None:
    owners = Owners()
    for _ in range(MOST_FAILED_MOVES):
        owners.move_failed(A, 0)

    assert not owners.move_failed(A, STOPPED_SECONDS)
    assert owners.failed_moves(A) == 1


def test_a_success_forgets_the_tries() -> None:
    owners = Owners()
    owners.move_failed(A, 0)
    owners.move_succeeded(A)

    assert owners.failed_moves(A) == 0


def test_a_budget_is_no_try_and_makes_it_wait_at_most_two_hours() -> None:
    owners = Owners()
    for _ in range(20):
        owners.eviction_failed(A, 0)

    assert owners.failed_moves(A) == 0
    assert owners.backoff_until(A) == LONGEST_BACKOFF


def test_those_that_are_left_alone_are_remembered_longest() -> None:
    owners = Owners()
    owners.stop(A, 0)
    for at in range(MOST_REMEMBERED + 10):
        owners.eviction_failed(("team", f"owner-{at}"), 0)

    assert owners.is_stopped(A, 1)
    assert len(owners._records) == MOST_REMEMBERED  # noqa: SLF001  its size


def test_who_no_longer_leads_knows_of_none() -> None:
    owners = Owners()
    owners.stop(A, 0)
    owners.forget()

    assert not owners.is_stopped(A, 1)
