"""Whose work is done next."""

import asyncio
from collections.abc import Generator, Iterator

import pytest

from numalign.runtime import cooperative
from numalign.runtime.cooperative import (
    CALL,
    SHARED_TURNS,
    SHORT_SECONDS,
    CallWork,
    Tenant,
    WorkQueue,
    answered_for,
    aside,
    patiently,
    result_of,
)
from tests.worlds.notation import table

EVIL, TEAM = Tenant(proven=False, namespace="evil"), Tenant(proven=False, namespace="team")
LONG = 100 * SHORT_SECONDS


async def order(*calls: tuple[str, Tenant, float], took: float = 0.0) -> list[str]:
    """In which order calls that all wait, and have taken so long, have one turn that takes so long."""
    queue, begun = WorkQueue(), list[str]()

    async def one(name: str, tenant: Tenant, spent: float) -> None:
        await queue.wait(tenant, spent)
        begun.append(name)
        queue.took(tenant, took)

    await asyncio.gather(*(one(*call) for call in calls))
    return begun


def others(number: int, seconds: float, *, apart: bool = False) -> list[tuple[str, Tenant, float]]:
    tenants = (Tenant(proven=False, namespace=f"evil-{at}") if apart else EVIL for at in range(number))
    return [("evil", tenant, seconds) for tenant in tenants]


@pytest.mark.parametrize(("beside", "call", "turn"), table([
    # which call                           beside which others             the call                 its turn
    ("a long one of another namespace",    others(20, LONG),               ("x", TEAM, LONG),       3),
    ("a short one beside long ones",       others(50, LONG, apart=True),   ("x", TEAM, 0.0),        3),
    ("a long one beside endless short ones", others(50, 0.0), ("x", TEAM, LONG), SHARED_TURNS + 1),
    ("one with a certificate", others(9, 0.0), ("x", Tenant(proven=True), LONG), 1),
]))  # fmt: skip
async def test_call_has_an_early_turn(
    beside: list[tuple[str, Tenant, float]], call: tuple[str, Tenant, float], turn: int
) -> None:
    assert "x" in (await order(*beside, call, took=1.0))[:turn]


async def test_idle_namespace_saves_no_turns() -> None:
    queue, begun = WorkQueue(), list[str]()

    async def ask(name: str, tenant: Tenant) -> None:
        await queue.wait(tenant, LONG)
        begun.append(name)
        queue.took(tenant, 1.0)

    for _ in range(20):
        await ask("before", EVIL)
    begun.clear()
    await asyncio.gather(*(ask(*each) for _ in range(10) for each in (("e", EVIL), ("t", TEAM))))

    assert begun[:8].count("e") >= 2


async def test_a_call_that_was_given_up_takes_no_turn() -> None:
    queue = WorkQueue()
    gone, other = (asyncio.create_task(queue.wait(EVIL, 0.0)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await other


async def test_others_have_a_turn_between_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SECONDS", -1.0)
    begun: list[str] = []

    def steps(name: str) -> Generator[None, None, str]:
        for number in range(3):
            begun.append(f"{name}{number}")
            yield
        return name

    answers = await asyncio.gather(result_of(steps("a")), result_of(steps("b")))
    assert ([*answers], begun) == (["a", "b"], ["a0", "b0", "a1", "b1", "a2", "b2"])


async def test_steps_take_turns_by_namespace() -> None:
    long_ago = 0.0
    call = CallWork(WorkQueue(), Tenant(proven=False), began=long_ago)
    CALL.set(call)
    answered_for("team")
    began: list[float] = []

    def steps() -> Iterator[None]:
        began.append(call.began)
        yield

    await patiently(steps())
    assert call.tenant == TEAM
    assert began[0] > long_ago
    assert call.spent > 0


async def test_what_a_call_waits_for_is_no_work() -> None:
    call = CallWork(WorkQueue(), TEAM)
    CALL.set(call)
    event = asyncio.Event()
    later = asyncio.create_task(aside(event.wait()))
    await asyncio.sleep(0)
    waiting_since, spent = call.began, call.spent
    event.set()
    await later
    assert call.spent == spent
    assert call.began > waiting_since
