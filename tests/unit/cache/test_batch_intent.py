"""Whether a placement satisfies an intent, in columns, is what the rules say of each placement."""

import pytest

from numalign.cache import batch_intent
from numalign.cache.feasibility import Trial
from numalign.model.resources import CPU, MEMORY
from tests.worlds.columns import only_request, state, with_free
from tests.worlds.notation import GPU, asks, means, node, table

BEST = node(*["cpu=8 mem=8Gi gpu=2"] * 2, policy="best-effort")


def test_resources_may_use_as_many_zones_as_the_narrowest() -> None:
    small, large = (node(*[f"cpu=8 mem=8Gi gpu={count}"] * 2, policy="restricted") for count in (2, 4))
    every = state(asks("cpu=2 mem=9Gi gpu=3"), small, large)

    def allowed(words: str, *names: str) -> list[int]:
        zones = batch_intent.allowed_zones(every, only_request(every), frozenset(names), means(words))
        return list[int](zones.tolist())

    assert [allowed("restricted", *names) for names in ((GPU,), (GPU, MEMORY), (GPU, CPU))] == [
        [2, 1],
        [2, 1],
        [1, 1],
    ]
    assert allowed("single-numa-node", GPU, MEMORY) == [1, 1]


ALONE = [
    ("one zone", "cpu=2 mem=1Gi gpu=2", "single-numa-node", [True, False], [False, False]),
    ("two zones are not one", "gpu=3", "single-numa-node", [False, False], [False, False]),
    ("two zones that it takes", "gpu=3", "restricted", [True, True], [False, False]),
    ("a part of it", "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", [False, False], [True, True]),
    ("nothing of it", "gpu=3", "single-numa-node nic", [True, True], [False, False]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "words", "satisfied", "doubtful"), table(ALONE))
def test_the_hint_of_one_container_satisfies(
    pod: str, words: str, satisfied: list[bool], doubtful: list[bool]
) -> None:
    every = state(asks(pod), BEST, with_free(BEST, "cpu=1 gpu=2", "gpu=1"), intent=means(words))
    results = batch_intent.kept_alone(every, Trial(every).hint, only_request(every), means(words))

    assert [rows.tolist() for rows in results] == [satisfied, doubtful]
