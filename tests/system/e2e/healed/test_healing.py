"""Hundreds of misaligned pods are moved on a real control plane, at the rate and within their budgets."""

from functools import partial

import pytest

from tests.system.e2e.healed.conftest import PER_MINUTE, HealedSite
from tests.system.e2e.played import pods
from tests.system.eventually import eventually
from tools.clusters.waiting import seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNERS, EACH, NODES = 20, 20, 20


@pytest.mark.timeout(900)
async def test_misaligned_pods_heal_at_the_limited_rate(site: HealedSite) -> None:
    every = OWNERS * EACH
    old, new = ([f"{age}-{at}" for at in range(NODES)] for age in ("old", "new"))
    await site.add(*old)
    for at in range(OWNERS):
        await site.deploy(f"web-{at}", EACH)

    # What runs on the old nodes sits in two zones there; on the new ones in one.
    look = partial(pods, site.api)
    await seconds_until(look, lambda seen: len(seen) == every, what="all pods were there", within=120)
    await site.place(*old)
    async with site.kubelets(lambda name: name.startswith("old")) as kubelets:

        async def nodes() -> list[str]:
            return [*kubelets.running.values()]

        await eventually(nodes, lambda seen: len(seen) == every, "all pods ran", within=300)
        before = {*kubelets.running}
        kubelets.watched = True
        await site.add(*new)
        await site.replicas.start()
        # The bucket alone takes 40 s of that; the rest is for a busy machine.
        await eventually(
            nodes,
            lambda seen: len(seen) == every and all(name.startswith("new") for name in seen),
            "all pods were healed",
            within=500,
        )

    # Each of them went once, and nothing that came in their place went.
    assert kubelets.gone.keys() == before
    # Never above the rate of a bucket of one token, which is looked at three times in a second.
    times = sorted(kubelets.gone.values())
    per_second = PER_MINUTE / 60
    assert (every - 1) / (times[-1] - times[0]) <= per_second * 1.05
    for width in (100, 200):
        windows = [times[at + width] - times[at] for at in range(len(times) - width)]
        assert all(seconds >= width / per_second - 2 for seconds in windows)
    # Of each owner one pod was missing at a time.
    assert min(kubelets.least.values()) >= EACH - 1
