"""A quota of exclusive CPUs holds whatever comes at once, and keeps nobody from what is left of it."""

import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from tests.worlds.notation import node
from tests.worlds.scorer import Raw, Scorer, on, raw, uid

LARGE = node("cpu=64 mem=256Gi", "cpu=64 mem=256Gi", policy="single-numa-node")
"""Room for all: only the quota says no."""

FAILURES: tuple[ClusterError | None, ...] = (None, None, Forbidden("no"), Unreachable("no answer"))


@dataclass(frozen=True)
class Step:
    """What happens next: pods of so many CPUs are bound at once, as others end or are bound elsewhere."""

    cpus: tuple[int, ...]
    limit: int
    failing: ClusterError | None
    ends: int
    bound_by_others: int


STEPS = st.builds(
    Step,
    cpus=st.lists(st.integers(1, 6), max_size=6).map(tuple),
    limit=st.integers(0, 20),
    failing=st.sampled_from(FAILURES),
    ends=st.integers(0, 3),
    bound_by_others=st.integers(0, 2),
)


def pod(number: int, cpus: int) -> Raw:
    return raw(f"cpu={cpus} mem=1Gi", name=f"pod-{number}", policy=None)


@given(st.lists(STEPS, max_size=6))
def test_bound_pods_are_within_the_quota(steps: list[Step]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[Step]) -> None:
    scorer, number = Scorer(), 0
    cpus_of: dict[str, int] = {}
    for step in steps:
        await scorer.know({"a": LARGE, "b": LARGE}, team={"exclusive-cpus": str(step.limit)})
        for name in [*cpus_of][: step.ends]:
            scorer.lose(name)
            del cpus_of[name]
        for _ in range(step.bound_by_others):
            number += 1
            made = pod(number, 2)
            scorer.see(on("a", made))
            cpus_of[made["metadata"]["name"]] = 2
        pods = [pod(number + at, cpus) for at, cpus in enumerate(step.cpus, start=1)]
        number += len(pods)
        scorer.see(*pods)
        scorer.writes.error = step.failing
        errors = await asyncio.gather(*(scorer.bind(one, "ab"[at % 2]) for at, one in enumerate(pods)))
        for one, cpus, why in zip(pods, step.cpus, errors, strict=True):
            reserved = scorer.reservations.is_reserved(uid(one["metadata"]["name"]))
            # Whether one without an answer was bound is not known, so it counts.
            if reserved:
                cpus_of[one["metadata"]["name"]] = cpus
            if "exclusive CPUs" in why:
                assert not reserved
        used = sum(cpus_of.values())
        refused = [cpus for cpus, why in zip(step.cpus, errors, strict=True) if "exclusive CPUs" in why]
        bound = errors.count("")
        if bound:
            assert used <= step.limit
        # One that failed otherwise may have left its share to nobody.
        if bound + len(refused) == len(errors):
            assert all(used + cpus > step.limit for cpus in refused)
