"""What owners do with refused pods by themselves: the facts by which ours decides what to do about them.

Every zone of every node has one CPU left and the pods want two, so that the scheduler, which counts by node,
sends them where their kubelet refuses them.
"""

import pytest

from tests.system.workloads import workloads
from tests.system.workloads.stages import HOLES, PART, Looked, Stage, refused
from tools.clusters.api_requests import Json
from tools.clusters.waiting import seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

ON = {PART: "refused"}
ALONE = {"numalign.io/admission": "disabled"}
MANY = 5
"""Pods for a single place."""


async def test_without_help_workloads_run_against_the_wall(cluster: Stage) -> None:
    enough = {"replicaset": MANY, "statefulset": MANY, "job": 2, "jobset": 2 * workloads.JOBS}
    async with cluster.home("alone", ALONE) as home:
        await cluster.block(home, *HOLES, "whole")
        job = workloads.job(home, "job", 1, template("job"), backoff=6)
        jobset = workloads.jobset(home, "jobset", template("jobset"), backoff=0, restarts=1)
        for document in (
            workloads.replicaset(home, "replicaset", 1, workloads.template("replicaset", on=ON)),
            workloads.statefulset(home, "statefulset", 1, workloads.template("statefulset", on=ON)),
            job,
            jobset,
        ):
            await cluster.store.apply(document)
        looked = Looked(cluster, home, tuple(enough))
        await seconds_until(
            looked.look,
            lambda counts: all(counts[of] >= count for of, count in enough.items()),
            what=f"{enough} pods were made",
            within=120,
            every=0.1,
        )

        async def ended() -> Json:
            status: Json = (await cluster.read(jobset)).get("status", {})
            return status

        await seconds_until(
            ended,
            lambda status: status.get("terminalState") == "Failed",
            what="the JobSet was lost",
            within=60,
            every=0.1,
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


def template(name: str) -> Json:
    """A pod that would end after a second, if any kubelet took it."""
    return workloads.ending(workloads.template(name, on=ON), seconds=1)
