"""The leading controller is killed in the middle of what it does to pods, and the other one goes on.

Killed as by a machine that loses its power, as soon as the API server noted its first write: it heard the
answer or not, and did no more.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from time import monotonic

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import test_moved, workloads
from tests.system.workloads.installed import GATE, HEAL, KEPT, Numalign
from tests.system.workloads.stages import HOLES, Stage, looking, refused, runs
from tests.system.workloads.test_refused import ON
from tests.worlds import rights
from tools.clusters import shipped
from tools.clusters.controlplane.audits import Use

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONGEST_GATE = 60
"""Seconds for which any pod may be held, whoever is killed."""

PATIENCE = 90
"""Seconds in which the other one has to be through: a third of it passes before it leads."""

MANY = 4
"""Refused pods of an owner."""

NAMES = ("one", "two", "three")

ANSWERS = {HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GATEWAY_TIMEOUT}
"""Of deletions. The API server gives up what it does for somebody who is killed, and notes that as a timeout:
the pod may be gone or not."""


async def test_killed_pinner_leaves_no_gate(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("killed-pinning", {GATE: "enabled"}) as home:
        await stage.block(home, *HOLES)
        async with looking(stage, home, NAMES) as looked:
            killing = asyncio.create_task(kill_the_leader(ours, home, "patch", "pods"))
            for name in NAMES:
                await stage.store.apply(workloads.deployment(home, name, 2, workloads.template(name, on=ON)))
            await killing
            for name in NAMES:
                await stage.until_running(home, name, 2, within=PATIENCE)
            counts = await looked.look()

    assert counts == dict.fromkeys(NAMES, 2)
    assert looked.longest_gate < LONGEST_GATE
    assert {looked.refused(of) for of in NAMES} == {0}


async def test_killed_remover_deletes_no_running_pod(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("killed-removing", {}) as home:
        await stage.block(home, *HOLES, "whole")
        async with looking(stage, home, NAMES) as looked:

            async def until_kept(right: Callable[[int], bool], what: str) -> None:
                await eventually(
                    looked.look, lambda _: all(right(looked.kept(of)) for of in NAMES), what, within=120
                )

            def running() -> set[str]:
                return {pod["metadata"]["uid"] for of in looked.now.values() for pod in of if runs(pod)}

            for name in NAMES:
                await stage.store.apply(workloads.replicaset(home, name, 1, workloads.template(name, on=ON)))
            await until_kept(lambda kept: kept >= MANY, f"{MANY} pods of each were refused")
            await stage.unblock(home, "whole")
            for name in NAMES:
                await stage.until_running(home, name, 1)
            await looked.look()
            before, taken = sum(map(looked.kept, NAMES)), running()
            killing = asyncio.create_task(kill_the_leader(ours, home, "delete", "pods"))
            await ours.label(home, {HEAL: "failed"})
            await killing
            await until_kept(lambda kept: kept == KEPT, f"{KEPT} refused pods of each were kept")
            deletions = writes(stage, home, "delete", "pods")
            seen = {uid: pod for of in looked.seen.values() for uid, pod in of.items() if refused(pod)}
            there = {pod["metadata"]["uid"] for of in looked.now.values() for pod in of}
            removed = {pod["metadata"]["name"] for uid, pod in seen.items() if uid not in there}

    counted = Counter(use.name for use in deletions if use.code == HTTPStatus.OK)
    assert len(removed) == before - KEPT * len(NAMES)
    assert running() == taken
    # A pod is gone before the line of its deletion is written, so the last ones may be missing.
    assert {*counted} <= removed
    assert {*counted.values()} == {1}
    assert {use.code for use in deletions} <= ANSWERS


async def test_killed_mover_evicts_no_pod_twice(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("killed-moving", {}) as home:
        documents = [workloads.deployment(home, name, 1, test_moved.template(name)) for name in NAMES]
        await test_moved.spread(stage, home, documents)
        async with looking(stage, home, NAMES) as looked:
            killing = asyncio.create_task(kill_the_leader(ours, home, "create", "pods/eviction"))
            await ours.label(home, {GATE: "enabled", HEAL: "running"})
            await stage.unblock(home, test_moved.TO)
            await killing
            for name in NAMES:
                await eventually(
                    partial(test_moved.aligned, stage, home, name),
                    bool,
                    f"{name} was aligned",
                    within=PATIENCE,
                )
            counts = await looked.look()
            evictions = writes(stage, home, "create", "pods/eviction")

    assert counts == dict.fromkeys(NAMES, 2)
    assert {*Counter(use.name for use in evictions).values()} == {1}
    assert {use.code for use in evictions} == {HTTPStatus.CREATED}
    assert looked.longest_gate < LONGEST_GATE


def writes(stage: Stage, home: str, verb: str, resource: str) -> list[Use]:
    return [
        use
        for use in stage.uses(shipped.CONTROLLERS)
        if (use.namespace, use.verb, use.resource) == (home, verb, resource)
    ]


async def kill_the_leader(ours: Numalign, home: str, verb: str, resource: str) -> None:
    """Kill it as soon as it has written such a thing there, and start another that waits for its turn."""
    leader = await ours.until_led()
    deadline = monotonic() + PATIENCE
    while not writes(ours.stage, home, verb, resource):
        assert monotonic() < deadline, f"nobody tried to {verb} {resource} in {home}"
        await asyncio.sleep(0.01)
    await ours.controllers.kill(leader)
    await ours.controllers.start()


TO_PODS = {("patch", "pods"), ("delete", "pods"), ("create", "pods/eviction")}


@pytest.mark.last
async def test_controllers_write_only_what_is_documented(ours: Numalign) -> None:
    stage, plane = ours.stage, ours.stage.cluster.plane
    uses = stage.uses(shipped.CONTROLLERS)
    rows = [row for row in rights.rows() if row.program == "controller"]
    listed = {(right.verb, right.resource) for row in rows for right in row.rights}
    written = {(use.verb, use.resource) for use in uses if use.writes}

    assert written <= listed
    assert {each for each in written if each[1].startswith("pods")} == TO_PODS
    refused = [use for use in uses if use.code in {401, 403} and not plane.starting(use.at)]
    # Nobody may tell anything where all is being deleted.
    left = stage.left
    assert [use for use in refused if use.namespace not in left or use.at < left[use.namespace]] == []
    assert [use for use in stage.uses(shipped.ACCOUNT) if use.writes] == []
