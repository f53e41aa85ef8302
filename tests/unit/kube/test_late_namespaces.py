"""A namespace that no watch has reported is requested once, and within limits."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from numalign.kube.errors import Throttled, Unreachable
from numalign.kube.late_namespaces import BURST, KEPT_SECONDS, MOST_KEPT, PER_SECOND, LateNamespaces
from numalign.model.intent import ENFORCE, Policy
from tests.worlds.clock import Clock
from tests.worlds.objects import Json, namespace
from tools.clusters.fake_api import FakeApi

STRICT = "/api/v1/namespaces/strict"


def restricted(name: str) -> Json:
    return namespace(name, **{ENFORCE: "restricted"})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def late(api: FakeApi, clock: Clock) -> AsyncIterator[LateNamespaces]:
    api.put(restricted("strict"))
    async with api.client() as client:
        yield LateNamespaces(client, clock)


async def test_equal_requests_are_one_call(late: LateNamespaces, api: FakeApi, clock: Clock) -> None:
    answers = await asyncio.gather(*(late.facts("strict") for _ in range(BURST + 1)))
    answers.append(await late.facts("strict"))
    first = len(api.received("GET", STRICT))
    clock.seconds += KEPT_SECONDS
    await late.facts("strict")
    assert {answer.rules.enforce for answer in answers if answer} == {Policy.RESTRICTED}
    assert (first, len(api.received("GET", STRICT))) == (1, 2)


@pytest.mark.parametrize("name", ["../pods/x", "", "A", "a" * 64])
async def test_a_missing_namespace_has_no_facts(late: LateNamespaces, api: FakeApi, name: str) -> None:
    assert await late.facts(name) is await late.facts("new") is None
    api.put(restricted("new"))
    assert await late.facts("new")


async def test_another_namespace_is_no_answer(late: LateNamespaces, api: FakeApi) -> None:
    api.documents[STRICT] = restricted("other")
    with pytest.raises(Unreachable, match="it is not namespace strict"):
        await late.facts("strict")


async def test_a_cancelled_request_does_not_end_others(late: LateNamespaces, api: FakeApi) -> None:
    api.hung.add(STRICT)
    first, second = (asyncio.create_task(late.facts("strict")) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    api.hung.clear()
    assert await second
    assert len(api.received("GET", STRICT)) == 1


async def test_calls_for_invented_names_are_limited(late: LateNamespaces, api: FakeApi, clock: Clock) -> None:
    answers = [late.facts(f"invented-{number}") for number in range(2 * BURST)]
    given = await asyncio.gather(*answers, return_exceptions=True)
    assert [isinstance(each, Throttled) for each in given] == [False] * BURST + [True] * BURST
    assert len(api.requests) == BURST
    clock.seconds += 1 / PER_SECOND
    assert await late.facts("strict")


async def test_answers_in_memory_are_limited(late: LateNamespaces, api: FakeApi, clock: Clock) -> None:
    for number in range(MOST_KEPT + 1):
        clock.seconds += 1 / PER_SECOND
        api.put(restricted(f"n{number}"))
        assert await late.facts(f"n{number}")
    await late.facts("n0")
    assert len(api.received("GET", "/api/v1/namespaces/n0")) == 2
