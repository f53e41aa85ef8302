"""A thousand misaligned pods are moved on a real control plane, at the rate and within their budgets."""

from itertools import pairwise

import pytest

from tests.system.e2e.healed.conftest import PER_MINUTE, HealedSite, until
from tools.clusters.waiting import seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWNERS, EACH = 50, 20
OLD = [f"old-{at}" for at in range(50)]
NEW = [f"new-{at}" for at in range(50)]


@pytest.mark.timeout(1800)
async def test_thousand_pods_heal_at_the_limited_rate(site: HealedSite) -> None:
    every = OWNERS * EACH
    await site.add(*OLD)
    for at in range(OWNERS):
        await site.deploy(f"web-{at}", EACH)

    # What runs on the old nodes sits in two zones there; on the new ones in one.
    await seconds_until(site.waiting, lambda seen: seen == every, what="all pods were there", within=120)
    await site.place(*OLD)
    async with site.kubelets(lambda name: name.startswith("old")) as kubelets:
        await until(lambda: len(kubelets.running) == every, "all pods ran", within=300)
        before = {*kubelets.running}
        kubelets.watched = True
        await site.add(*NEW)
        await site.lead()

        def healed() -> bool:
            nodes = kubelets.running.values()
            return len(nodes) == every and all(name.startswith("new") for name in nodes)

        # The bucket alone takes 100 s of that; the rest is for a busy machine.
        await until(healed, "all pods were healed", within=1200)

    # Each of them went once, and nothing that came in their place went.
    assert kubelets.gone.keys() == before
    # Never above the rate of a bucket of one token, which is looked at three times in a second.
    times = sorted(kubelets.gone.values())
    per_second = PER_MINUTE / 60
    assert (every - 1) / (times[-1] - times[0]) <= per_second * 1.05
    for width in (100, 200, 400):
        windows = [times[at + width] - times[at] for at in range(len(times) - width)]
        assert all(seconds >= width / per_second - 2 for seconds in windows)
    assert all(later >= earlier for earlier, later in pairwise(times))
    # Of each owner one pod was missing at a time.
    assert min(kubelets.least.values()) >= EACH - 1
