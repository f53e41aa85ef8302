"""How the webhook follows its snapshot: the last good one counts."""

import asyncio
import gzip
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from numalign.rules.intent import UNRULED, NamespaceRules, Policy
from numalign.rules.topology import Node, node_class
from tests.notation import node, table
from tests.webhook.conftest import Door, raw
from webhook.catalogue import Moment

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
FOUR_GPUS = raw("cpu=2 mem=1Gi gpu=4", policy=SINGLE)

SOON = 0.01


async def until(happened: Callable[[], object]) -> None:
    """Wait for something that can only be looked at; fails after ten seconds."""
    for _ in range(2000):
        if happened():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it never happened")


@asynccontextmanager
async def following(door: Door) -> AsyncIterator[None]:
    """The catalogue follows its file inside the `async with`."""
    task = asyncio.create_task(door.catalogue.follow(every=SOON))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def moment_of(door: Door) -> Moment:
    assert door.catalogue.now
    return door.catalogue.now


def test_a_snapshot_is_a_fleet_and_the_rules_of_namespaces(door: Door) -> None:
    door.put({"a": SMALL, "b": LARGE, "c": Node("c", zones=())}, team={"enforce": SINGLE}, quiet={})

    door.catalogue.load()

    now = moment_of(door)
    assert [member.name for member in now.fleet.nodes] == ["a", "b"]
    assert now.fleet.unknown == 1
    assert now.rules_of("team") == NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)
    assert now.rules_of("quiet") == now.rules_of("never heard of") == UNRULED
    assert door.told.of("snapshot.loaded")[0]["nodes"] == 2


def test_what_is_counted_is_what_was_read(door: Door) -> None:
    labelled = replace(SMALL, label="blue")
    door.put({"a": labelled, "b": SMALL, "c": Node("c", zones=())}, team={"enforce": "strictly"})

    door.catalogue.load()

    assert door.count("numalign_nodes", topology="known") == 2
    assert door.count("numalign_nodes", topology="unknown") == 1
    assert door.count("numalign_classes") == 2
    assert moment_of(door).fleet.classes == tuple(sorted({"blue", node_class(SMALL)}))
    assert door.count("numalign_snapshot_problems") == 1
    assert 'numalign.io/enforce]: "strictly"' in door.told.of("snapshot.problem")[0]["problem"]


UNREADABLE: list[tuple[str, Callable[[Door], object]]] = [
    ("is not there", lambda _: None),
    ("is empty", lambda door: door.put_bytes(b"")),
    ("is cut off", lambda door: door.put_bytes(b'{"kind": "List", "items": [')),
    ("is no text", lambda door: door.put_bytes(b"\xff\x00\xff")),
    ("is half of a gzip file", lambda door: door.put_bytes(gzip.compress(b"{}" * 999)[:-9])),
    ("is a folder", lambda door: door.path.mkdir()),
]


@pytest.mark.parametrize("write", table(UNREADABLE))
def test_a_first_snapshot_leaves_nothing_that_could_answer_when_it(
    door: Door, write: Callable[[Door], object]
) -> None:
    write(door)

    door.catalogue.load()

    assert door.catalogue.now is None
    assert door.catalogue.waiting_for() == f"a readable snapshot at {door.path}"
    assert door.count("numalign_snapshot_failures_total") == 1
    [line] = door.told.of("snapshot.failed")
    assert line["level"] == "error"
    assert str(door.path) in line["path"]


FORGETFUL = [
    b"",
    b"{",
    b"\xff\x00",
    b"kind: Node\nx: !!bool foo\n",
    b'{"kind": "List", "items": null}',
    b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}',
]


@pytest.mark.parametrize("content", FORGETFUL)
def test_a_broken_snapshot_keeps_the_old_one_and_counts(door: Door, content: bytes) -> None:
    door.put({"a": SMALL})
    door.catalogue.load()
    before = door.catalogue.now
    door.clock.seconds = 5
    door.put_bytes(content)

    door.catalogue.load()

    assert door.catalogue.now is before
    assert door.catalogue.waiting_for() is None
    assert door.count("numalign_snapshot_failures_total") == 1
    assert door.count("numalign_snapshot_age_seconds") == 5


def test_a_pipe_in_place_of_the_snapshot_is_not_waited_for(door: Door) -> None:
    os.mkfifo(door.path)

    door.catalogue.load()

    assert door.count("numalign_snapshot_failures_total") == 1


def test_the_age_counts_from_the_last_good_snapshot(door: Door) -> None:
    door.put({"a": SMALL})
    door.clock.seconds = 100
    door.catalogue.load()
    door.clock.seconds = 103

    assert door.count("numalign_snapshot_age_seconds") == 3


def test_one_broken_object_does_not_hide_the_others(door: Door) -> None:
    short = replace(SMALL, zones=(replace(SMALL.zones[0], name="zone"), SMALL.zones[1]))
    door.put({"a": short, "b": LARGE})

    door.catalogue.load()

    assert [member.name for member in moment_of(door).fleet.nodes] == ["b"]
    assert moment_of(door).fleet.unknown == 1
    assert door.count("numalign_snapshot_problems") == 1


async def test_a_new_snapshot_is_read_and_answers(door: Door) -> None:
    door.put({"a": SMALL})
    door.catalogue.load()
    async with following(door), door.open() as caller:
        before = await caller.ask("/validate", FOUR_GPUS)
        door.put({"a": SMALL, "b": LARGE})
        await until(lambda: door.count("numalign_nodes", topology="known") == 2)
        after = await caller.ask("/validate", FOUR_GPUS)

    assert [before["allowed"], after["allowed"]] == [False, True]


async def test_a_first_snapshot_may_come_late(door: Door) -> None:
    door.catalogue.load()
    async with following(door), door.open() as caller:
        early, _ = await caller.get("/readyz")
        door.put({"a": LARGE})
        await until(lambda: door.catalogue.now)
        late, _ = await caller.get("/readyz")

    assert [early, late] == [503, 200]


async def test_a_broken_snapshot_is_followed_by_a_good_one(door: Door) -> None:
    door.put({"a": SMALL})
    door.catalogue.load()
    async with following(door):
        door.put_bytes(b"{")
        await until(lambda: door.count("numalign_snapshot_failures_total"))
        kept = [member.name for member in moment_of(door).fleet.nodes]
        door.put({"b": LARGE})
        await until(lambda: moment_of(door).fleet.nodes[0].name == "b")

    assert kept == ["a"]


async def test_a_change_between_reading_and_following_is_not_missed(door: Door) -> None:
    door.put({"a": SMALL})
    door.catalogue.load()
    door.put({"a": SMALL, "b": LARGE})
    async with following(door):
        await until(lambda: len(moment_of(door).fleet.nodes) == 2)


async def test_a_snapshot_that_does_not_change_is_not_read_again(door: Door) -> None:
    door.put({"a": SMALL})
    door.catalogue.load()
    async with following(door):
        await asyncio.sleep(10 * SOON)

    assert len(door.told.of("snapshot.loaded")) == 1


async def test_a_review_in_between_does_not_see_half_of_two_snapshots(door: Door) -> None:
    """A review keeps the moment it began in, and the next one has the answers that still hold."""
    door.put({"a": SMALL})
    door.catalogue.load()
    before = moment_of(door)
    door.put({"a": SMALL, "b": LARGE})
    door.catalogue.load()

    assert len(before.fleet.nodes) == 1
    assert len(moment_of(door).fleet.nodes) == 2


def test_the_file_may_be_compressed(door: Door, tmp_path: Path) -> None:
    door.put({"a": SMALL})
    door.put_bytes(gzip.compress((tmp_path / "cluster.json").read_bytes()))

    door.catalogue.load()

    assert len(moment_of(door).fleet.nodes) == 1
