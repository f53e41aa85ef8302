"""Misaligned pods move to a node that aligns them, one at a time, and never against a budget."""

from functools import partial
from http import HTTPStatus

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, HEAL, Numalign
from tests.system.workloads.spreading import FROM, TO, aligned, of_job, spread, template
from tests.system.workloads.stages import looking, runs
from tools.clusters import shipped

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOVED = ("deployment", "statefulset", "job")
ALL = (*MOVED, "kept")


async def test_misaligned_pods_of_all_owners_move(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("moved", {}) as home:
        job = workloads.job(home, "job", 1, of_job("job"), backoff=0)
        budget = workloads.budget(home, "kept", available=1)
        await stage.store.apply(budget)
        kinds = {"deployment": workloads.deployment, "statefulset": workloads.statefulset}
        lasting = [make(home, name, 1, template(name)) for name, make in kinds.items()]
        await spread(stage, home, [*lasting, job, workloads.deployment(home, "kept", 1, template("kept"))])
        async with looking(stage, home, ALL) as looked:
            before = {of: [*looked.seen[of]] for of in ALL}
            await ours.label(home, {GATE: "enabled", HEAL: "running"})
            await stage.unblock(home, TO)
            for of in MOVED:
                await eventually(partial(aligned, stage, home, of), bool, f"{of} was aligned", within=120)
            counts = await looked.look()
            status = (await stage.read(job))["status"]
            [stays] = looked.now["kept"]
        asked = [use for use in stage.uses(shipped.CONTROLLERS) if use.namespace == home]

    answers = {
        of: [
            use.code
            for use in asked
            if use.resource == "pods/eviction" and use.name in workloads.names([*looked.seen[of].values()])
        ]
        for of in ALL
    }
    assert counts == {**dict.fromkeys(MOVED, 2), "kept": 1}
    assert {of: answers[of] for of in MOVED} == {of: [HTTPStatus.CREATED] for of in MOVED}
    # The budget was asked, and had its way.
    assert {*answers["kept"]} <= {HTTPStatus.TOO_MANY_REQUESTS}
    assert {pod["spec"]["nodeName"] for of in MOVED for pod in looked.now[of]} == {TO}
    assert runs(stays)
    assert [stays["metadata"]["uid"]] == before["kept"]
    assert stays["spec"]["nodeName"] == FROM
    assert stays["metadata"]["annotations"]["numalign.io/aligned"] == "false"
    # That pod was disturbed, and counts for nothing: one failure would have been the end of the Job.
    assert status["active"] == 1
    assert not status.get("conditions")
