"""With `workloads: deny`, Kueue can still start and evict what its queues hold."""

from functools import partial

import pytest

from tests.system.ecosystem import queues as kueue
from tests.system.ecosystem.denying import IMPOSSIBLE, Denying
from tests.system.ecosystem.nodes import POOL
from tests.system.ecosystem.queues import Queues
from tests.system.eventually import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_job_that_its_flavor_cannot_align_is_started(queues: Queues, denies: Denying) -> None:
    stage = queues.ours.stage
    small = {"kubernetes.io/hostname": "small-1"}
    async with queues.home("flavored", {}, on=small, cpus=8) as home:
        await denies.begin(home)
        await stage.store.apply(kueue.job(home, "train", 1, cpus=5))
        await queues.until(home, "train", "Admitted")

        async def seen() -> tuple[list[str], set[str]]:
            events = [each for each in await stage.events(home) if each["involvedObject"]["kind"] == "Job"]
            return queues.denials(home), {each["reason"] for each in events}

        denials, reasons = await eventually(
            seen, lambda seen: bool(seen[0]) or "SuccessfulCreate" in seen[1], "the Job started or was denied"
        )

    assert denials == []
    assert "SuccessfulCreate" in reasons


async def test_an_evicted_job_returns_its_quota(queues: Queues, denies: Denying) -> None:
    async with queues.home("evicted", {}, on={POOL: "a"}, cpus=IMPOSSIBLE) as home:
        await queues.ours.stage.store.apply(kueue.job(home, "train", 1, cpus=IMPOSSIBLE))
        await queues.until(home, "train", "Admitted")
        await denies.begin(home)
        await queues.deactivate(home, "train")
        await queues.until(home, "train", "Evicted")
        denials, conditions = (
            queues.denials(home),
            await eventually(
                partial(queues.conditions, home, "train"),
                lambda seen: bool(queues.denials(home)) or seen["QuotaReserved"] == "False",
                "the quota was returned, or that was denied",
            ),
        )

    assert denials == []
    assert conditions["QuotaReserved"] == "False"
