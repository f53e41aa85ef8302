"""A namespace that no watch has reported is asked for: once, within a time, and not without end."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from numalign.kube import late_namespaces
from numalign.kube.errors import ClusterError, Throttled, Unreachable
from numalign.kube.late_namespaces import BURST, KEPT_SECONDS, MOST_KEPT, PER_SECOND, LateNamespaces
from numalign.model.intent import ENFORCE, Policy
from tests.worlds.clock import Clock
from tools.clusters.fake_api import FakeApi

STRICT = "/api/v1/namespaces/strict"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as running:
        running.put(made("strict"))
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def late(api: FakeApi, clock: Clock) -> AsyncIterator[LateNamespaces]:
    async with api.client() as client:
        yield LateNamespaces(client, clock)


def made(name: str) -> dict[str, object]:
    labels = {ENFORCE: "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def test_equal_questions_are_one_call_and_its_answer_counts_for_a_moment(
    late: LateNamespaces, api: FakeApi, clock: Clock
) -> None:
    answers = await asyncio.gather(*(late.facts("strict") for _ in range(BURST + 1)))
    answers.append(await late.facts("strict"))
    first = len(api.asked("GET", STRICT))
    clock.seconds += KEPT_SECONDS
    await late.facts("strict")

    assert {answer.rules.enforce for answer in answers if answer} == {Policy.RESTRICTED}
    assert (first, len(api.asked("GET", STRICT))) == (1, 2)


@pytest.mark.parametrize("name", ["gone", "../pods/x", "", "A", "a" * 64])
async def test_a_namespace_that_is_not_there_enforces_nothing(late: LateNamespaces, name: str) -> None:
    assert await late.facts(name) is None


async def test_what_was_not_there_is_asked_for_again(late: LateNamespaces, api: FakeApi) -> None:
    before = await late.facts("new")
    api.put(made("new"))

    assert (before, bool(await late.facts("new"))) == (None, True)


async def test_a_namespace_that_cannot_be_read_is_not_one_that_enforces_nothing(
    late: LateNamespaces, api: FakeApi
) -> None:
    api.failures[STRICT] = HTTPStatus.FORBIDDEN
    with pytest.raises(ClusterError, match="strict"):
        await late.facts("strict")
    api.failures.clear()
    api.oddities[STRICT] = b'{"kind": "Pod"}'
    with pytest.raises(Unreachable, match="not namespace strict"):
        await late.facts("strict")
    api.oddities.clear()

    assert await late.facts("strict")


async def test_an_api_server_that_does_not_answer_is_given_up(
    late: LateNamespaces, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_namespaces, "PATIENCE_SECONDS", 0.01)
    api.hung.add(STRICT)

    with pytest.raises(Unreachable, match="did not answer within"):
        await late.facts("strict")


async def test_who_goes_away_takes_no_answer_from_others(late: LateNamespaces, api: FakeApi) -> None:
    api.hung.add(STRICT)
    first, second = (asyncio.create_task(late.facts("strict")) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    api.hung.clear()

    assert await second
    assert len(api.asked("GET", STRICT)) == 1


async def test_invented_names_cost_some_calls_and_are_not_remembered(
    late: LateNamespaces, api: FakeApi, clock: Clock
) -> None:
    answers = [late.facts(f"invented-{number}") for number in range(2 * BURST)]
    given = await asyncio.gather(*answers, return_exceptions=True)

    assert [isinstance(each, Throttled) for each in given] == [False] * BURST + [True] * BURST
    assert len(api.requests) == BURST
    clock.seconds += 1 / PER_SECOND
    assert await late.facts("strict")


async def test_no_more_answers_are_kept_than_there_is_room_for(
    late: LateNamespaces, api: FakeApi, clock: Clock
) -> None:
    for number in range(MOST_KEPT + 1):
        clock.seconds += 1 / PER_SECOND
        api.put(made(f"n{number}"))
        assert await late.facts(f"n{number}")
    await late.facts("n0")

    assert len(api.asked("GET", "/api/v1/namespaces/n0")) == 2
