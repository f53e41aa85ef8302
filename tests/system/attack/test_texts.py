"""Reviews before anybody has validated them: what stands in them may be as long as a body, and anything."""

import orjson
import pytest

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tests.system.attack.objects import Json
from tests.worlds.notation import table

MOST_MIB = 256
FILLING = 4 * 2**20 - 1000
"""Bytes of a body that is taken whatever it consists of, its envelope left out."""

LONGEST = 20 * 2**20 - 1000
"""Bytes of a body that is taken if it is text."""

PADDING = 17_000_000
"""Bytes of it that are plain; small objects beside may take as much memory as they can."""

SEVEN = 7


def affine(*terms: Json) -> Json:
    """A pod with these terms of node affinity, of which any may be met."""
    made = objects.pod("tall")
    chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {**made, "spec": {**made["spec"], "affinity": {"nodeAffinity": chosen}}}


def term(**more: object) -> Json:
    return {"matchExpressions": [{"key": "a", **more}]}


PODS = [
    # what a pod has                         the pod
    ("140,000 terms of node affinity",       affine(*[term(operator="Exists")] * 140_000)),
    ("300,000 values in one",                affine(term(operator="In", values=[*map(str, range(300_000))]))),
    ("a policy of 3 MB",                     objects.pod("long", policy="single-numa-nod" * 200_000)),
    ("resources of 3 MB",                    objects.pod("long", resources="cpu," * 750_000)),
    ("150,000 annotations",                  objects.pod("wide", **{f"a{at}": "" for at in range(150_000)})),
    ("a name of 3 MB for a resource",        objects.pod("long", {"x" * 3_000_000: "1"})),
    ("an amount of 3 MB",                    objects.pod("long", {"cpu": "9" * 3_000_000})),
]  # fmt: skip


@pytest.mark.parametrize("made", table(PODS))
async def test_what_is_long_keeps_no_review_waiting(arena: Arena, made: Json) -> None:
    webhook = await arena.webhook()
    body = objects.review(made)
    async with arena.honest(webhook, most=MOST_MIB):
        for path in ("/mutate", "/validate"):
            await send(webhook.door, path, [body] * 3, at_once=3)


def filled(filling: bytes) -> bytes:
    """A review whose object is nothing but this."""
    return objects.review({"filling": "HERE"}).replace(b'"HERE"', filling)


HOSTILE = [
    # what a body is                       what fills it
    ("empty lists",                        b"[" + b"[]," * (FILLING // 3) + b"0]"),
    ("empty objects",                      b"[" + b"{}," * (FILLING // 3) + b"0]"),
    ("short numbers",                      b"[" + b"1," * (FILLING // 2) + b"0]"),
    ("keys that all differ",               orjson.dumps({f"{at:06x}": {} for at in range(FILLING // 12)})),
]  # fmt: skip


@pytest.mark.parametrize("filling", table(HOSTILE))
async def test_seven_largest_bodies_stay_below_the_memory_limit(arena: Arena, filling: bytes) -> None:
    webhook = await arena.webhook()
    bodies, statuses = [filled(filling)] * SEVEN, []
    async with arena.honest(webhook, most=MOST_MIB):
        for path in ("/mutate", "/validate"):
            statuses += await send(webhook.door, path, bodies, at_once=SEVEN)
    assert {413, 400}.isdisjoint(statuses)


TEXTS = [
    # what is written        bytes, as Go writes it
    ("angle brackets",       rb"\u003c"),
    ("emoji",                "\N{GRINNING FACE}".encode()),
    ("small objects",        b'",{"a":0},"'),
]  # fmt: skip


@pytest.mark.parametrize("written", table(TEXTS))
async def test_escaped_text_of_a_pod_delays_no_review(arena: Arena, written: bytes) -> None:
    webhook = await arena.webhook()
    body = filled(b'["' + b"x" * PADDING + written * ((LONGEST - PADDING) // len(written)) + b'"]')
    async with arena.honest(webhook, most=MOST_MIB):
        for path in ("/mutate", "/validate"):
            assert await send(webhook.door, path, [body] * 2, at_once=1) == [200, 200]


LISTED, WRITTEN = 100, 50_000
"""Entries of a list that is read, and annotations of one that is as long as an API server stores."""


async def test_ten_thousand_patches_delay_no_review(arena: Arena) -> None:
    """A job changes its runtime with as many patches as are read, the first of them long."""
    notes = [{f"{at}": "" for at in range(WRITTEN)}, *({} for _ in range(LISTED * LISTED - 1))]
    jobs = [
        {"name": "node", "template": {"spec": {"template": {"metadata": {"annotations": each}}}}}
        for each in notes
    ]
    patches = [
        {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs[at : at + LISTED]}}}}
        for at in range(0, len(jobs), LISTED)
    ]
    trainer = {"resourcesPerNode": {"limits": objects.SMALL}}
    job = {"metadata": {"name": "train"}, "spec": {"trainer": trainer, "runtimePatches": patches}}
    kind = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"}
    webhook = await arena.webhook()
    async with arena.honest(webhook, most=MOST_MIB):
        await send(webhook.door, "/validate-workloads", [objects.review(job, kind=kind)], at_once=1)
