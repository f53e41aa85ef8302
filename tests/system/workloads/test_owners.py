"""What owners do with refused pods by themselves: the facts by which ours decides what to do about them.

Every zone of every node has one CPU left and the pods want two, so that the scheduler, which counts by node,
sends them where their kubelet refuses them.
"""

from functools import partial

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.stages import HOLES, PART, Stage, looking, refused

pytestmark = pytest.mark.asyncio(loop_scope="session")

ON = {PART: "refused"}
ALONE = {"numalign.io/admission": "disabled"}
MANY = 5
"""Pods for a single place."""


async def test_without_help_workloads_run_against_the_wall(cluster: Stage) -> None:
    enough = {"replicaset": MANY, "statefulset": MANY, "job": 2, "jobset": 2 * workloads.JOBS}
    async with cluster.home("alone", ALONE) as home:
        await cluster.block(home, *HOLES, "whole")
        # Pods that would end after a second, if any kubelet took them.
        of_job, of_jobset = [
            workloads.ending(workloads.template(name, on=ON), seconds=1) for name in ("job", "jobset")
        ]
        job = workloads.job(home, "job", 1, of_job, backoff=6)
        jobset = workloads.jobset(home, "jobset", of_jobset, backoff=0, restarts=1)
        for document in (
            workloads.replicaset(home, "replicaset", 1, workloads.template("replicaset", on=ON)),
            workloads.statefulset(home, "statefulset", 1, workloads.template("statefulset", on=ON)),
            job,
            jobset,
        ):
            await cluster.store.apply(document)
        async with looking(cluster, home, [*enough]) as looked:
            await eventually(
                looked.look,
                lambda counts: all(counts[of] >= count for of, count in enough.items()),
                f"{enough} pods were made",
                within=120,
            )
            await eventually(
                partial(cluster.read, jobset),
                lambda found: found.get("status", {}).get("terminalState") == "Failed",
                "the JobSet was lost",
            )
            await looked.look()
        counted = (await cluster.read(job))["status"]["failed"]

    # A ReplicaSet makes the next at once, and nobody takes the refused ones away.
    assert looked.kept("replicaset") >= MANY - 1
    assert {*looked.seen["replicaset"]} == {pod["metadata"]["uid"] for pod in looked.now["replicaset"]}
    # A StatefulSet takes them away itself, and makes the next of the same name.
    assert looked.kept("statefulset") <= 1
    assert {pod["metadata"]["name"] for pod in looked.seen["statefulset"].values()} == {"statefulset-0"}
    # Of a Job each counts, though it ignores pods that were disturbed: a refused pod has no such condition.
    assert 1 <= counted <= looked.kept("job")
    assert not any(pod["status"].get("conditions") for pod in looked.now["job"] if refused(pod))
    # A JobSet that starts all of it anew is lost at once.
    assert len(looked.seen["jobset"]) == 2 * workloads.JOBS
