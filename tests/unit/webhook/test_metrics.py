"""The pods that run already, held against what their namespaces ask."""

import asyncio

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import MOST_NAMES
from tests.worlds.notation import table
from tests.worlds.webhook import Raw, Webhook, raw, with_spec
from webhook.handlers import PODS_BELOW
from webhook.metrics import LOOK_SECONDS, PodsBelow, ReviewsBelow

SINGLE = "single-numa-node"
ALIGNABLE = "cpu=2 mem=1Gi gpu=1"
NAMED = 10


def running(namespace: str, name: str, made: Raw, **status: str) -> Raw:
    metadata = {**made["metadata"], "name": name, "namespace": namespace}
    return {**made, "metadata": metadata, "status": {"phase": "Running", **status}}


def pods_below(webhook: Webhook, *, most: int = NAMED) -> PodsBelow:
    return PodsBelow(webhook.known, webhook.policy, PodReader(), most=most)


async def counts_of(below: PodsBelow) -> dict[tuple[str, str], float]:
    await below.update()
    family, *_ = below.collect()
    return {(each.labels["namespace"], each.labels["level"]): each.value for each in family.samples}


SILENT = raw(ALIGNABLE)
BURSTABLE = with_spec(SILENT, containers=[{"name": "main", "resources": {"requests": {"cpu": "100m"}}}])
PODS = [
    running("team", "silent", SILENT),
    running("team", "loose", raw(ALIGNABLE, policy="best-effort")),
    running("team", "tight", raw(ALIGNABLE, policy=SINGLE)),
    running("other", "silent", SILENT),
]
BROKEN: list[Raw] = [
    {**spec, "apiVersion": "v1", "kind": "Pod"} for spec in ({}, {"spec": 1}, {"spec": {"containers": "x"}})
]
ENDED = [running("team", "done", SILENT, phase="Succeeded"), running("away", "a", SILENT)]
BY_DEFAULT = {"team": {"audit": "restricted", "default": SINGLE}}
TEAM = {"team": {"audit": SINGLE}}
AWAY = {"away": {"audit": SINGLE, "admission": "disabled"}}
LEVELS = {"team": {"audit": "restricted", "warn": "best-effort"}, "other": {}, "calm": {"enforce": SINGLE}}
NONE = {("team", "audit"): 0}

COUNTED: list[tuple[str, list[Raw], dict[str, dict[str, str]], dict[tuple[str, str], int]]] = [
    # what it shows                               the pods, the namespaces, what is counted
    ("pods by namespace and level",
        PODS, LEVELS, {("calm", "enforce"): 0, ("team", "audit"): 2, ("team", "warn"): 1}),
    ("none that a kubelet would not align",       [running("team", "small", BURSTABLE)], TEAM, NONE),
    ("none for which a default speaks",           PODS[:1], BY_DEFAULT, NONE),
    ("none that ended, or in disabled namespaces", ENDED, TEAM | AWAY, NONE),
    ("none that cannot be read",                  BROKEN, TEAM, NONE),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "namespaces", "counts"), table(COUNTED))
async def test_pods_that_fall_short_are_counted(
    webhook: Webhook,
    pods: list[Raw],
    namespaces: dict[str, dict[str, str]],
    counts: dict[tuple[str, str], int],
) -> None:
    below = pods_below(webhook)
    # Nothing is counted before the first snapshot.
    assert await counts_of(below) == {}
    await webhook.know({}, pods=pods, **namespaces)
    assert await counts_of(below) == counts


async def test_counts_are_exposed_as_metrics(webhook: Webhook) -> None:
    await webhook.know({}, pods=[running("team", "a", raw(ALIGNABLE))], team={"audit": SINGLE})
    app = webhook.app(named_namespaces=NAMED)
    await app[PODS_BELOW].update()
    assert webhook.count("numalign_pods_below", namespace="team", level="audit") == 1


async def test_rules_that_change_count_every_pod_again(webhook: Webhook) -> None:
    await webhook.know({}, pods=PODS, team=TEAM["team"])
    below = pods_below(webhook)
    before = await counts_of(below)
    await webhook.know({}, pods=PODS, team={"audit": "best-effort"})

    assert (before, await counts_of(below)) == ({("team", "audit"): 2}, {("team", "audit"): 1})


async def test_recounting_takes_a_fifth_of_the_time_at_most(webhook: Webhook) -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise asyncio.CancelledError

    await webhook.know({}, pods=PODS, team=TEAM["team"])
    with pytest.raises(asyncio.CancelledError):
        await pods_below(webhook).follow(sleep=sleep, clock=iter([0.0, 2.0, 10.0, 10.0]).__next__)

    assert slept == [8.0, LOOK_SECONDS]


async def test_only_so_many_namespaces_are_named(webhook: Webhook) -> None:
    await webhook.know({}, pods=PODS, team=TEAM["team"], other=TEAM["team"])
    counts = [await counts_of(pods_below(webhook, most=most)) for most in (0, 1)]

    assert counts == [{("", "audit"): 3}, {("other", "audit"): 1, ("", "audit"): 2}]


async def test_a_pod_that_names_too_much_is_counted_by_itself(webhook: Webhook) -> None:
    many = raw(ALIGNABLE + "".join(f" x.io/{at}=1" for at in range(MOST_NAMES)))
    await webhook.know({}, pods=[running("team", "many", many)], team=TEAM["team"])
    app = webhook.app()
    await app[PODS_BELOW].update()

    assert webhook.count("numalign_pods_too_large") == 1
    assert webhook.count("numalign_pods_below", namespace="", level="audit") == 0


# Reviews.


def below(webhook: Webhook) -> dict[tuple[str, str], float]:
    found = (sample for family in webhook.registry.collect() for sample in family.samples)
    return {
        (each.labels["namespace"], each.labels["level"]): each.value
        for each in found
        if each.name == "numalign_reviews_below_total"
    }


NAMESPACES: list[tuple[str, str, int, str, dict[tuple[str, str], int]]] = [
    # which share a series       the snapshot, how many are named, reviews, what is counted
    ("unknown ones", "team", NAMED, "team phantom ghost team", {("team", "warn"): 2, ("", "warn"): 2}),
    ("those beyond the number",  "team other", 1, "team other team", {("team", "warn"): 2, ("", "warn"): 1}),
]  # fmt: skip


@pytest.mark.parametrize(("known", "most", "reviews", "counts"), table(NAMESPACES))
async def test_reviews_are_counted_by_namespace_but(
    webhook: Webhook, known: str, most: int, reviews: str, counts: dict[tuple[str, str], int]
) -> None:
    await webhook.know({}, **{name: {} for name in known.split()})
    counted = ReviewsBelow(webhook.known, webhook.registry, most=most)
    for name in reviews.split():
        counted.count(name, ("warn", "audit"))
    assert below(webhook) == counts | {(name, "audit"): count for (name, _), count in counts.items()}


async def test_deleted_namespaces_leave_no_series_unscraped(webhook: Webhook) -> None:
    counter = ReviewsBelow(webhook.known, webhook.registry, most=2)
    for number in range(20):
        await webhook.know({}, **{f"team-{number}": {}, "other": {}})
        counter.count(f"team-{number}", ("warn",))

    assert len(list(counter.describe())) == 1
    series = [sample for family in counter._counter.collect() for sample in family.samples]  # noqa: SLF001  before anybody scrapes
    assert len({sample.labels["namespace"] for sample in series}) <= 3
