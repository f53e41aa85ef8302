"""
Laws of work: what is told of it before is never less than what is done, and steps change no answer.

Counted are the lists of hints that are found and those that are merged, on machines of up to sixteen zones
and for pods of up to two hundred containers, whatever is free. No second is measured.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.decision.evaluate import evaluate, evaluating
from numalign.decision.verdict import Verdict
from numalign.kubelet import admit as kubelet
from numalign.kubelet import hint_sets, work_limit
from numalign.kubelet.hint_sets import HintSet
from numalign.model import demand as demands
from numalign.model.demand import Demand
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from numalign.model.steps import Steps
from tests.laws.fleets import Case, case, drawn
from tests.worlds.notation import node, options, pod

seeds = st.integers(0, 2**32)
FEW = settings(max_examples=max(5, settings().max_examples // 4))


@dataclass
class Done:
    """What was really done."""

    lists: int = 0
    merges: int = 0


@contextmanager
def watched(patch: pytest.MonkeyPatch) -> Iterator[Done]:
    """Count what is done from now on; lists that were found before are forgotten."""
    done, merge = Done(), hint_sets.intersections
    caches = (hint_sets._kept_reaching, hint_sets._few_reaching)  # noqa: SLF001 - nobody else knows what was found

    def merged(one: HintSet, other: HintSet, zones: int) -> HintSet:
        done.merges += 1
        return merge(one, other, zones)

    for cache in caches:
        cache.cache_clear()
    with patch.context() as patched:
        patched.setattr(hint_sets, "intersections", merged)
        yield done
    done.lists = sum(cache.cache_info().misses for cache in caches)


AMOUNTS = (
    "cpu=1 mem=1Gi gpu=1",
    "cpu=2 mem=2Gi",
    "cpu=1 mem=9Gi gpu=0",
    "cpu=1 mem=1Mi gpu=1 nic=1",
    "cpu=20 mem=70Gi gpu=5 nic=2",
)


def large(seed: int) -> tuple[Node, Demand]:
    """A machine of up to sixteen zones, and a pod of up to two hundred containers."""
    chance = Random(seed)  # noqa: S311 - inputs of tests keep no secret
    zones = chance.choice([1, 2, 4, 7, 8, 9, 12, 16])
    free = [[chance.randint(0, most) for most in (16, 64, 4)] for _ in range(zones)]
    machine = [f"cpu=16//{cpus} mem=64Gi//{memory}Gi gpu=4//{gpus} nic=2" for cpus, memory, gpus in free]
    made = node(
        *machine,
        policy=chance.choice(list(Policy)),
        scope=chance.choice(list(Scope)),
        options=options(chance.choice(["", "", "align-by-socket", "prefer-closest-numa-nodes"])),
        costs={(a, b): 10 if a == b else chance.choice([12, 21]) for a in range(zones) for b in range(zones)},
        max_zones=16,
    )
    roles = ["", "", "init ", "sidecar "]
    count = chance.choice([1, 2, 5, 20, 200])
    texts = [chance.choice(roles) + chance.choice(AMOUNTS) for _ in range(count)]
    return chance.choice([made, made.emptied()]), demands.of(pod(" | ".join(texts)))


@FEW
@given(seed=seeds)
def test_work_is_never_underestimated(seed: int) -> None:
    machine, wanted = large(seed)
    expected = work_limit.estimate(machine, kubelet.effective_demand(machine, wanted))
    with pytest.MonkeyPatch.context() as patch, watched(patch) as done:
        kubelet.admit(machine, wanted)

    assert done.lists <= expected.lists
    assert done.merges <= expected.merges


def test_the_estimate_is_exact_for_an_ordinary_pod() -> None:
    """Of an ordinary pod on a machine that takes it every list is made."""
    machine = node(*["cpu=16 mem=64Gi//63Gi gpu=4"] * 16, policy="restricted")
    wanted = demands.of(pod("cpu=1 mem=1Gi gpu=1 | cpu=2 mem=2Gi gpu=2"))
    with pytest.MonkeyPatch.context() as patch, watched(patch) as done:
        assert kubelet.admit(machine, wanted).refusal is None

    assert done.lists == work_limit.estimate(machine, wanted).lists


def in_turn(several: Sequence[Steps[Verdict]]) -> list[Verdict]:
    """What they come to, one step of each after the other."""
    verdicts: dict[int, Verdict] = {}
    while len(verdicts) < len(several):
        for at, steps in enumerate(several):
            if at not in verdicts:
                try:
                    next(steps)
                except StopIteration as done:
                    verdicts[at] = done.value
    return [verdicts[at] for at in range(len(several))]


@FEW
@given(st.lists(seeds, min_size=2, max_size=4))
def test_steps_in_turn_have_the_same_verdicts(several: list[int]) -> None:
    pairs = [large(seed) for seed in several]

    assert in_turn([evaluating(*pair) for pair in pairs]) == [evaluate(*pair) for pair in pairs]


@given(drawn(case))
def test_ordinary_machines_are_always_answered(pairs: Case) -> None:
    machine = [pair for pair in pairs.nodes if len(pair.zones) <= work_limit.MOST_ZONES]
    verdicts = [evaluate(pair, pairs.question.demand, pairs.question.intent) for pair in machine]

    assert all(verdict.answered for verdict in verdicts)
