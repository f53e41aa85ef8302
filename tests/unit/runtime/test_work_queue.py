"""Whose work is done next."""

import asyncio
from collections.abc import Iterator

from numalign.runtime.cooperative import patiently
from numalign.runtime.work_queue import (
    CALL,
    SHARED_TURNS,
    SHORT_SECONDS,
    CallWork,
    Tenant,
    WorkQueue,
    answered_for,
    aside,
)

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


async def test_long_calls_delay_no_other_namespace() -> None:
    long = [(f"evil-{at}", EVIL, LONG) for at in range(20)]
    assert "team" in (await order(*long, ("team", TEAM, LONG), took=1.0))[:3]


async def test_short_call_precedes_long_ones() -> None:
    long = [(f"evil-{at}", Tenant(proven=False, namespace=f"evil-{at}"), LONG) for at in range(50)]
    assert "team" in (await order(*long, ("team", TEAM, 0.0), took=1.0))[:3]


async def test_long_calls_have_turns_though_short_ones_never_end() -> None:
    short = [(f"evil-{at}", EVIL, 0.0) for at in range(50)]
    assert "team" in (await order(*short, ("team", TEAM, LONG), took=1.0))[: SHARED_TURNS + 1]


async def test_callers_with_a_certificate_come_first() -> None:
    calls = [(str(at), TEAM, 0.0) for at in range(9)]
    assert (await order(*calls, ("proven", Tenant(proven=True), LONG)))[0] == "proven"


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
