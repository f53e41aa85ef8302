"""How often pods of an owner are evicted, and when no more of them are."""

from controller.healing import owners as limits
from controller.healing.owners import FIRST_BACKOFF, MOST_REMEMBERED, STOPPED_SECONDS, Owners

A, B = ("team", "a"), ("team", "b")


def test_each_failed_move_doubles_the_pause_of_its_owner() -> None:
    owners = Owners()
    assert owners.backoff_until(A) < 0
    assert not owners.move_failed(A, 0)
    assert owners.backoff_until(A) == FIRST_BACKOFF
    assert not owners.move_failed(A, 100)
    assert owners.backoff_until(A) == 100 + 2 * FIRST_BACKOFF
    assert owners.backoff_until(B) < 0

    owners.move_succeeded(A)
    assert owners.failed_moves(A) == 0


def test_three_failed_moves_stop_an_owner_for_a_day() -> None:
    owners = Owners()

    assert [owners.move_failed(A, 0) for _ in range(limits.MOST_FAILED_MOVES)] == [False, False, True]
    assert owners.is_stopped(A, STOPPED_SECONDS - 1)
    assert not owners.is_stopped(A, STOPPED_SECONDS)
    assert not owners.move_failed(A, STOPPED_SECONDS)
    assert owners.failed_moves(A) == 1


def test_failed_evictions_pause_two_hours_at_most() -> None:
    owners = Owners()
    for _ in range(20):
        owners.eviction_failed(A, 0)

    assert (owners.failed_moves(A), owners.backoff_until(A)) == (0, limits.LONGEST_BACKOFF)


def test_stopped_owners_are_remembered_longest() -> None:
    owners = Owners()
    owners.stop(A, 0)
    for at in range(MOST_REMEMBERED + 10):
        owners.eviction_failed(("team", f"owner-{at}"), 0)

    assert owners.is_stopped(A, 1)
    assert len(owners._records) == MOST_REMEMBERED  # noqa: SLF001  its size
    owners.forget()
    assert not owners.is_stopped(A, 1)
