"""The pods that run already, held against what their namespaces ask."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files.policy import PolicyKeeper
from tests.webhook.conftest import Door, Raw, raw
from webhook.level_metrics import PodsBelow, ReviewsBelow

SINGLE = "single-numa-node"
ALIGNABLE = "cpu=2 mem=1Gi gpu=1"


def running(namespace: str, name: str, made: Raw, **status: str) -> Raw:
    metadata = {**made["metadata"], "name": name, "namespace": namespace}
    return {**made, "metadata": metadata, "status": {"phase": "Running", **status}}


async def counted(door: Door) -> dict[tuple[str, str], float]:
    await door.load()
    [family] = PodsBelow(door.holder, door.policy, PodReader()).collect()
    return {(each.labels["namespace"], each.labels["level"]): each.value for each in family.samples}


async def test_pods_that_fall_short_are_counted_by_namespace_and_level(door: Door) -> None:
    pods = [
        running("team", "silent", raw(ALIGNABLE)),
        running("team", "loose", raw(ALIGNABLE, policy="best-effort")),
        running("team", "tight", raw(ALIGNABLE, policy=SINGLE)),
        running("other", "silent", raw(ALIGNABLE)),
    ]
    door.put(
        {}, pods=pods, team={"audit": "restricted", "warn": "best-effort"}, other={}, calm={"enforce": SINGLE}
    )

    assert await counted(door) == {
        ("calm", "enforce"): 0,
        ("team", "audit"): 2,
        ("team", "warn"): 1,
    }


async def test_what_a_kubelet_would_not_align_falls_short_of_nothing(door: Door) -> None:
    burstable = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]}
    pods = [running("team", "small", {**raw(ALIGNABLE), "spec": burstable})]
    door.put({}, pods=pods, team={"audit": SINGLE})

    assert await counted(door) == {("team", "audit"): 0}


async def test_a_namespace_default_speaks_for_silent_pods(door: Door) -> None:
    door.put({}, pods=[running("team", "a", raw(ALIGNABLE))], team={"audit": "restricted", "default": SINGLE})

    assert await counted(door) == {("team", "audit"): 0}


async def test_ended_pods_and_disabled_namespaces_are_left_out(door: Door) -> None:
    pods = [
        running("team", "done", raw(ALIGNABLE), phase="Succeeded"),
        running("away", "a", raw(ALIGNABLE)),
    ]
    door.put({}, pods=pods, team={"audit": SINGLE}, away={"audit": SINGLE, "admission": "disabled"})

    assert await counted(door) == {("team", "audit"): 0}


async def test_the_policy_of_the_cluster_is_heard(door: Door, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("defaults:\n- audit: restricted\nexemptions: {namespaces: [free]}\n")
    door.policy = PolicyKeeper(path, log=door.told.log, registry=CollectorRegistry())
    door.policy.load()
    pods = [running(name, "a", raw(ALIGNABLE)) for name in ("team", "free")]
    door.put({}, pods=pods, team={}, free={})

    assert await counted(door) == {("team", "audit"): 1}


async def test_before_there_is_a_snapshot_nothing_is_counted(door: Door) -> None:
    assert await counted(door) == {}


async def test_it_stands_on_the_page_of_metrics(door: Door) -> None:
    door.put({}, pods=[running("team", "a", raw(ALIGNABLE))], team={"audit": SINGLE})
    await door.load()
    async with door.open() as caller:
        assert await caller.metric("numalign_pods_below", namespace="team", level="audit") == 1


@pytest.mark.parametrize("broken", [{}, {"spec": 1}, {"spec": {"containers": "x"}}])
async def test_a_pod_that_cannot_be_read_is_not_counted(door: Door, broken: Raw) -> None:
    door.put({}, pods=[{**broken, "apiVersion": "v1", "kind": "Pod"}], team={"audit": SINGLE})

    assert await counted(door) == {("team", "audit"): 0}


# Reviews.


def below(door: Door) -> dict[tuple[str, str], float]:
    """What is counted of reviews, as it is scraped."""
    found = (sample for family in door.registry.collect() for sample in family.samples)
    return {
        (each.labels["namespace"], each.labels["level"]): each.value
        for each in found
        if each.name == "numalign_reviews_below_total"
    }


async def test_namespaces_that_nobody_knows_are_counted_together(door: Door) -> None:
    door.put({}, team={})
    await door.load()
    counted = ReviewsBelow(door.holder, door.registry)

    for name in ("team", "phantom", "ghost", "team"):
        counted.count(name, ("warn", "audit"))

    assert below(door) == {
        ("team", "warn"): 2,
        ("team", "audit"): 2,
        ("", "warn"): 2,
        ("", "audit"): 2,
    }


async def test_before_there_is_a_snapshot_no_namespace_is_known(door: Door) -> None:
    ReviewsBelow(door.holder, door.registry).count("team", ("warn",))

    assert below(door) == {("", "warn"): 1}


async def test_a_namespace_that_is_gone_takes_its_counts_with_it(door: Door) -> None:
    door.put({}, team={}, other={})
    await door.load()
    counted = ReviewsBelow(door.holder, door.registry)
    for name in ("team", "other"):
        counted.count(name, ("warn", "enforce"))
    door.put({}, other={})
    await door.load()

    assert below(door) == {("other", "warn"): 1, ("other", "enforce"): 1}


async def test_namespaces_that_come_and_go_leave_nothing_though_nobody_looks(door: Door) -> None:
    counter = ReviewsBelow(door.holder, door.registry)
    for number in range(20):
        door.put({}, **{f"team-{number}": {}, "other": {}})
        await door.load()
        counter.count(f"team-{number}", ("warn",))

    assert len(list(counter.describe())) == 1
    series = [sample for family in counter._counter.collect() for sample in family.samples]  # noqa: SLF001  before anybody scrapes
    assert len({sample.labels["namespace"] for sample in series}) <= 3
