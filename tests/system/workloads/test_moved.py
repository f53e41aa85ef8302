"""Misaligned pods move to a node that aligns them, one at a time, and never against a budget."""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, HEAL, Numalign
from tests.system.workloads.stages import EACH, MACHINE, PART, Stage, looking, runs
from tests.system.workloads.workloads import WIDE
from tools.clusters import shipped
from tools.clusters.api_requests import Json
from tools.clusters.kubelets.kept import kept

FROM, TO = "loose-1", "loose-2"
ON = {PART: "moved"}
MOST = EACH - 2
"""Pods that can be spread so: a kubelet puts two pods of a single CPU into one zone, if that has room."""


async def spread(stage: Stage, home: str, documents: Sequence[Json]) -> None:
    """Have these workloads run, one pod each, all spread on `FROM`; `TO` is full, until `free` is called."""
    assert len(documents) <= MOST
    await stage.block(home, TO, cpus=EACH)
    for number, document in enumerate(documents, start=1):
        await stage.block(home, FROM, cpus=EACH - number)
        await stage.store.apply(document)
        name = document["metadata"]["name"]
        [pod] = await stage.until_running(home, name, 1)
        assert len(zones(stage, pod)) == len(MACHINE["zones"]), pod["status"]
        await stage.unblock(home, FROM)


def zones(stage: Stage, pod: Json) -> set[int]:
    kubelet = stage.cluster.kubelets[pod["spec"]["nodeName"]]
    total = kept(kubelet.state, pod["metadata"]["uid"], {}).total(MACHINE)
    return {zone for several in total for zone in several}


async def aligned(stage: Stage, home: str, of: str) -> bool:
    """Whether a workload has one pod, that runs in a single zone."""
    pods = await stage.pods(home, of)
    return [*map(runs, pods)] == [True] and len(zones(stage, pods[0])) == 1


def template(name: str) -> Json:
    return workloads.template(name, on=ON, cpus=WIDE)


def of_job(name: str) -> Json:
    """A pod of a Job that says that it may be moved all the same; it runs until it is deleted."""
    wish = workloads.template(name, on=ON, cpus=WIDE, restart="Never")
    wish["metadata"]["annotations"]["descheduler.alpha.kubernetes.io/evict"] = "true"
    return wish


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
