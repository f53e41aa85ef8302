"""Behind gates no pod of any owner is refused: each is made once, and runs where it was pinned."""

import pytest

from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, HEAL, Numalign
from tests.system.workloads.stages import HOLES, PART, looking, runs
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

ON = {PART: "refused"}
MADE = {"deployment": 1, "statefulset": 1, "job": 1, "jobset": workloads.JOBS}


async def test_gated_pods_of_all_owners_run_at_once(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("gated", {GATE: "enabled", HEAL: "running"}) as home:
        await stage.block(home, *HOLES)
        job = workloads.job(home, "job", 1, ending("job"), backoff=0)
        jobset = workloads.jobset(home, "jobset", ending("jobset"), backoff=0, restarts=0)
        lasting = [
            make(home, name, 1, workloads.template(name, on=ON))
            for name, make in (("deployment", workloads.deployment), ("statefulset", workloads.statefulset))
        ]
        async with looking(stage, home, tuple(MADE)) as looked:
            for document in (*lasting, job, jobset):
                await stage.store.apply(document)
            for each in (job, jobset):
                await stage.until_ended(each)
            for document in lasting:
                await stage.until_running(home, document["metadata"]["name"], 1)
            counts = await looked.look()

    assert counts == MADE
    assert {of: looked.refused(of) for of in MADE} == dict.fromkeys(MADE, 0)
    pods = [pod for of in looked.seen.values() for pod in of.values()]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"whole"}
    assert all("numalign.io/pinned-at" in pod["metadata"]["annotations"] for pod in pods)
    assert [runs(pod) for of in ("deployment", "statefulset") for pod in looked.now[of]] == [True, True]


def ending(name: str) -> Json:
    return workloads.ending(workloads.template(name, on=ON), seconds=2)
